from tests.architecture import LAYERS, ROOT, SOURCE, arrows, contributing, imports, room_of

RANK = {room: number for number, layer in enumerate(LAYERS) for room in layer}


def test_every_room_has_its_layer():
    assert {room_of(file) for file in SOURCE.rglob("*.py")} - {"__init__"} == set(RANK)


def test_arrows_go_one_way():
    assert [(room, target) for room, target in sorted(arrows()) if RANK[room] >= RANK[target]] == []


def test_an_import_inside_a_function_says_why():
    silent = [
        f"{each.file.relative_to(ROOT)}:{each.line}" for each in imports() if each.in_function and not each.reason
    ]
    assert silent == []


def test_the_drawing_in_contributing_is_that_of_the_code():
    written = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert written == contributing(), "run `python -m tests.architecture`"


def test_what_is_shipped_holds_no_code():
    assert not list((ROOT / "src" / "smlstm" / "pretrained").rglob("*.py"))
