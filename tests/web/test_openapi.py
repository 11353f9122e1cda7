"""The API against its own description: whatever is asked, no answer is a failure of ours."""

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from smlstm.web import answers
from smlstm.web.app import create_app
from smlstm.web.settings import Settings
from tests.web.made import upload

EXAMPLES = 12


def test_the_api_keeps_to_its_description(library, pictures):
    load_all_checks()
    # Not indexing: it would go on in the background after the test.
    app = create_app(library, Settings(hosts=("testserver", "localhost")))
    app.state.service.indexing.start = lambda *_, **__: None
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)
    checks = (
        schemathesis.checks.not_a_server_error,
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )
    photo = answers.photo_id(next(entry.content for entry in library.entries() if entry.reason is None))
    folder = app.state.service.served.folders()[0][0].id
    png = upload(pictures[0].picture)[1][1]
    seen: dict[str, set[int]] = {}
    asked: list[object] = []
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
                  suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])  # fmt: skip
        def run(case):
            if len(asked) % 2:
                name_what_there_is(case, photo, folder, png)
            asked.append(case)
            answer = case.call_and_validate(checks=checks)
            seen.setdefault(f"{case.method} {case.path}", set()).add(answer.status_code)

        given(case=operation.as_strategy())(run)()
    described = app.openapi()["paths"]
    assert set(seen) == {f"{method.upper()} {path}" for path, each in described.items() for method in each}
    # Refused at the gate, nothing would have been tried.
    assert not any({401, 403} & statuses for statuses in seen.values())
    well = {name for name, statuses in seen.items() if 200 in statuses or 202 in statuses}
    assert well == set(seen)


def name_what_there_is(case, photo, folder, png):
    """Drawn ids and files are never those of the library: put such in, so that more than the refusal is tried."""
    if "photo" in (case.path_parameters or {}):
        case.path_parameters["photo"] = photo
    real = {
        "photos": [png] if case.path.startswith("/api/v1/uploads/") else [photo],
        "similar": photo,
        "folders": [folder],
        "since": "2024",
        "until": "2025-05",
        "sentence": "a circle",
        "plus": ["0.5:a square"],
        "minus": ["a zebra"],
        "sentences": ["a red circle", "a zebra"],
    }
    for each in [case.body, *(case.body.get("questions", []) if isinstance(case.body, dict) else []), case.query]:
        if isinstance(each, dict):
            if "/search" in case.path and "questions" not in each:
                each["sentence"] = "a circle"
            each.update({name: real[name] for name in each if name in real and each[name]})


def test_the_description_names_every_address(client):
    described = client.get("/api/v1/openapi.json").json()
    for path in ("search", "search/batch", "score", "explain", "annotate", "photos", "library", "library/skipped",
                 "library/index", "health", "uploads/annotate", "uploads/score"):  # fmt: skip
        assert f"/api/v1/{path}" in described["paths"]
    for each in described["paths"].values():
        for operation in each.values():
            assert operation["description"] and "503" in operation["responses"]
