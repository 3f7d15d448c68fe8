"""JSON schemas of all kinds that a real API server serves, from its OpenAPI v3 documents."""

from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft7Validator

from support.control_plane.api_server import ApiServer

Document = dict[str, Any]


@dataclass(slots=True)
class PublishedSchemas:
    """The schemas of one API server. Each group's document is read once."""

    server: ApiServer
    _groups: dict[str, Document] = field(default_factory=dict)

    def errors(self, manifest: Document) -> list[str]:
        """Return what the schema of the manifest's kind rejects, unknown fields included."""
        group, _, version = manifest["apiVersion"].rpartition("/")
        document = self._group(f"apis/{group}/{version}" if group else f"api/{version}")
        wanted = {"group": group, "version": version, "kind": manifest["kind"]}
        (name,) = [
            name
            for name, schema in document["components"]["schemas"].items()
            if wanted in schema.get("x-kubernetes-group-version-kind", [])
        ]
        validator = Draft7Validator({**document, "$ref": f"#/components/schemas/{name}"})
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(manifest)]

    def _group(self, path: str) -> Document:
        if path not in self._groups:
            response = self.server.get(f"/openapi/v3/{path}")
            assert response.accepted, f"{path} is not served: {response.message}"
            schemas = response.body["components"]["schemas"]
            self._groups[path] = {
                "components": {"schemas": {name: _strict(each) for name, each in schemas.items()}}
            }
        return self._groups[path]


def _strict(schema: Any) -> Any:
    """Return a schema that also rejects fields that it does not name."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(each) for key, each in schema.items()}
    open_ended = {"additionalProperties", "x-kubernetes-preserve-unknown-fields"}
    if isinstance(schema.get("properties"), dict) and not open_ended & schema.keys():
        strict["additionalProperties"] = False
    return strict
