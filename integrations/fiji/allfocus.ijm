// Fuses the stack that is open in ImageJ or Fiji, and opens the sharp picture and its height map with their scale.
//
// Drag this file onto the main window and press Run, or Plugins > Macros > Install... for an entry in the menu.
// allfocus must be installed (pip install allfocus). Where the program is not found, its place can be given in the
// dialog; it is remembered. All channels are fused with one decision; of several times the one that is shown is taken.
//
// A script gives everything as its argument, and no dialog appears: runMacro("allfocus.ijm", "command=/path/allfocus").

if (nImages == 0) exit("Open a stack first.");
getDimensions(width, height, channels, slices, frames);
if (slices < 2 && channels == 1 && frames > 1) exit("These are times, not planes: Image > Hyperstacks > Re-order, then run again.");
if (slices < 2) exit("The picture has one plane; a stack needs two or more.");
getVoxelSize(pixelWidth, pixelHeight, step, unit);
Stack.getPosition(channel, slice, frame);

command = call("ij.Prefs.get", "allfocus.command", "allfocus");
method = "ips";
align = true;
given = getArgument();
if (indexOf(given, "command=") == 0) {
	command = substring(given, lengthOf("command="));
	align = false;
} else {
	Dialog.create("allfocus");
	Dialog.addString("Program:", command, 40);
	Dialog.addChoice("Method:", newArray("ips", "ips-hard", "depth-map"), method);
	Dialog.addCheckbox("Align the planes", align);
	Dialog.show();
	command = Dialog.getString();
	method = Dialog.getChoice();
	align = Dialog.getCheckbox();
	call("ij.Prefs.set", "allfocus.command", command);
}

folder = getDirectory("temp") + "allfocus_" + d2s(getTime(), 0) + File.separator;
File.makeDirectory(folder);
stack = folder + "stack.tif";
fused = folder + "fused.tif";
depth = folder + "height.png";
title = getTitle();
save(stack);
rename(title);

moving = "--align";
if (!align) moving = "--no-align";
if (frames > 1)
	said = exec(command, "fuse", stack, "-o", fused, "--depth-map", depth, "--filled", "--method", method, moving, "--time", d2s(frame, 0), "--json");
else
	said = exec(command, "fuse", stack, "-o", fused, "--depth-map", depth, "--filled", "--method", method, moving, "--json");
if (!File.exists(fused)) exit("allfocus could not fuse the stack. Type this in a terminal to see why:\n" + command + " fuse " + stack + "\n" + said);

open(depth);
rename("height of " + title);
// From black (the first plane) to white (the last) to heights in the unit of the stack.
run("32-bit");
run("Multiply...", "value=" + d2s((slices - 1) * step, 9));
run("Divide...", "value=65535");
setVoxelSize(pixelWidth, pixelHeight, step, unit);
resetMinAndMax();
run("Fire");
open(fused);
rename("fused " + title);
if (channels == 1) setVoxelSize(pixelWidth, pixelHeight, step, unit);
print("allfocus: " + slices + " planes of " + title + " fused; the files are in " + folder);
