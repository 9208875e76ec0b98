"""From the name of a method to the method, refused before the long work begins where it cannot do what is asked."""

import difflib
import os
from dataclasses import replace
from pathlib import Path

from allfocus.errors import InputError, MissingDependencyError
from allfocus.fusion.accelerators import require_provider
from allfocus.fusion.devices import DEVICES, TORCH_DEVICES
from allfocus.fusion.method import EXTRAS, NETWORK_ENDING, WEIGHTS_SIGN, Method
from allfocus.fusion.methods import METHODS, all_methods, list_methods

PREFERENCES = ("near", "far")


def find_method(name: str) -> Method:
    """Returns the method called `name`, or that of a network of one's own: the path of a file that ends in ``.onnx``.

    A method that runs on weights which are not part of allfocus is also found as ``NAME@FILE``.

    Raises:
        InputError: there is none; the message names the nearest. Or the method takes no weights, or their file is not
            there.
    """
    if not isinstance(name, str):
        raise InputError(
            f"method = {name!r}; it is a name out of allfocus methods, or that of a network's file",
            code="unknown-method",
        )
    known = all_methods()
    if name in known:
        return known[name]
    if name.endswith(NETWORK_ENDING):
        if not os.path.isfile(name):
            raise InputError(
                "there is no such file; allfocus export writes a network as one", where=name, code="no-such-file"
            )
        own = {"weights": name}
        return replace(METHODS["ips"], name=name, summary="a network of your own", options=own, network=name)
    stem, sign, file = name.partition(WEIGHTS_SIGN)
    if sign and stem in known:
        return _with_weights(known[stem], file)
    nearest = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.0)[0]
    raise InputError(
        f"unknown method {name!r}; did you mean {nearest!r}? (allfocus methods lists all)", code="unknown-method"
    )


def _with_weights(method: Method, file: str) -> Method:
    if not method.abilities.weights:
        able = ", ".join(name for name, other in all_methods().items() if other.abilities.weights)
        raise InputError(f"{method.name} takes no weights from outside", hint=f"these do: {able}", code="method-cannot")
    if not os.path.isfile(file):
        raise InputError("there is no such file of weights", where=file or method.name, code="no-such-file")
    return replace(method, name=f"{method.name}{WEIGHTS_SIGN}{file}", network=file)


def absolute_name(name: str) -> str:
    """Returns a name that means the same method to a process in another folder.

    Example:
        >>> absolute_name("ips"), absolute_name("/networks/own.onnx"), absolute_name("ifcnn@/weights/max.pth")
        ('ips', '/networks/own.onnx', 'ifcnn@/weights/max.pth')
    """
    if name.endswith(NETWORK_ENDING):
        return str(Path(name).absolute())
    stem, sign, file = name.partition(WEIGHTS_SIGN)
    return f"{stem}{sign}{Path(file).absolute()}" if sign else name


def short_name(name: str) -> str:
    """Returns a name for tables and folders: of files only their own names.

    Example:
        >>> short_name("ips"), short_name("/networks/own.onnx"), short_name("ifcnn@/weights/max.pth")
        ('ips', 'own.onnx', 'ifcnn@max.pth')
    """
    if name.endswith(NETWORK_ENDING):
        return Path(name).name
    stem, sign, file = name.partition(WEIGHTS_SIGN)
    return f"{stem}{sign}{Path(file).name}" if sign else name


def require_method(
    name: str | Method,
    *,
    device: str = "auto",
    prefer: str | None = None,
    maps: bool = False,
    veil_map: bool = False,
    unveil: bool = True,
    linear_light: bool | None = None,
    listed: bool = False,
) -> Method:
    """Returns the method called `name` if it can do what is asked; meant to be asked before the long work begins.

    With `listed`, only a name of the table will do, and no file of a network: for names that come from strangers.

    Raises:
        InputError: there is no such method or device, it knows no preference or linear light, or makes no decision,
            depth or veil maps.
        MissingDependencyError: the method cannot run with what is installed.
    """
    if listed and name not in all_methods():
        raise InputError(f"unknown method {name!r}; valid are {', '.join(all_methods())}", code="unknown-method")
    chosen = name if isinstance(name, Method) else find_method(name)
    name, abilities = chosen.name, chosen.abilities
    if chosen.missing:
        ready = ", ".join(other.name for other in list_methods() if not other.missing)
        lacks = "missing-weights" if chosen.missing.startswith("it needs weights") else None
        raise MissingDependencyError(f"{name} cannot run: {chosen.missing}; methods that can: {ready}", code=lacks)
    if device not in DEVICES:
        raise InputError(f"unknown device {device!r}; valid are {', '.join(DEVICES)}", code="bad-option")
    if chosen.extra in EXTRAS and device not in TORCH_DEVICES:
        raise _cannot(f"{name} runs in torch, on a processor or an NVIDIA GPU, not on {device}", "{device=default}")
    if abilities.devices and device not in TORCH_DEVICES:
        require_provider(device)
    if prefer is not None and prefer not in PREFERENCES:
        raise InputError(f"prefer = {prefer!r}; it is near or far", code="bad-option")
    if prefer is not None and not abilities.prefers:
        raise _cannot(f"{name} knows no preference for {prefer} frames", "{prefer=default}")
    if linear_light and not abilities.linear_light:
        raise _cannot(f"{name} works on the values as they are stored, not in linear light", "{linear_light=default}")
    if maps and not abilities.decides:
        raise _cannot(f"{name} blends all frames and makes no decision or depth map", "leave the maps out")
    if veil_map and not abilities.unveils:
        raise _cannot(f"{name} removes no haze, so there is no map of it", "{veil_map=default}")
    if veil_map and not unveil:
        raise InputError(
            "a map of the haze was asked for, but it is to be left on",
            hint=["{unveil=default}", "{veil_map=default}"],
            code="method-cannot",
        )
    return chosen


def _cannot(what: str, instead: str) -> InputError:
    return InputError(what, hint=[instead, "use the method ips"], code="method-cannot")
