-- A droplet for macOS: pictures dropped on it, or handed to it by an export, are fused by allfocus_fuse.pyw.
-- Make it once, with both files in the folder where they stay:
--   osacompile -o "Fuse with allfocus.app" allfocus.applescript

on open pictures
	set here to POSIX path of ((path to me as text) & "::")
	set commandLine to "/usr/bin/env python3 " & quoted form of (here & "allfocus_fuse.pyw") & " --no-windows"
	repeat with picture in pictures
		set commandLine to commandLine & " " & quoted form of POSIX path of picture
	end repeat
	try
		set fused to do shell script commandLine
		do shell script "open " & quoted form of fused
	on error complaint
		display alert "allfocus could not fuse the pictures" message complaint as critical
	end try
end open

on run
	display alert "allfocus" message "Drop the pictures of a stack on this, or choose it in the export dialog of your photo program."
end run
