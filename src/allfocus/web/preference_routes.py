"""Routes about what the studio remembers: options of the last time, and presets."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from allfocus.stack.options import FuseOptions
from allfocus.web.bodies import StartOptions
from allfocus.web.preferences import Preferences

Name = Annotated[str, Path(min_length=1, max_length=100)]


def make_preference_routes(preferences: Preferences) -> APIRouter:
    """The routes under ``/api`` that are about the user and not about a job."""
    router = APIRouter(prefix="/api", tags=["preferences"])

    @router.get("/preferences")
    def show() -> dict[str, Any]:
        """The options of the last time, and all presets."""
        return preferences.show()

    @router.put("/preferences/options")
    def remember(body: StartOptions) -> dict[str, Any]:
        """Remember options for the next stack."""
        return preferences.remember(FuseOptions(**body.model_dump()))

    @router.put("/presets/{name}")
    def keep(name: Name, body: StartOptions) -> dict[str, Any]:
        """Keep options under a name."""
        return preferences.keep_preset(name, FuseOptions(**body.model_dump()))

    @router.delete("/presets/{name}")
    def delete(name: Name) -> dict[str, Any]:
        """Delete a preset of one's own."""
        return preferences.delete_preset(name)

    return router
