"""Machines, instructions and layouts from the user's own TOML files, good ones and bad ones."""

import pytest

import regweave
from regweave import programs
from regweave.errors import InputError, UnsupportedError
from regweave.machines.catalogue import find_instruction, find_layout, find_machine, machine_names
from regweave.machines.user.machine import EXCHANGES, OPCODES, PACKINGS

BOARD = """
[layouts.board]
tile = [4, 4]
type = "f32"
axes = ["m", "n"]
lane = [[0, 1], [0, 2]]
item = [[1, 0], [2, 0]]

[layouts.odd]
tile = [3, 2]
type = "f32"
elements = [[[0, 0], [0, 1]], [[1, 0], [1, 1]], [[2, 0], [2, 1]]]

[instructions.dot4]
mnemonic = "board.dot4.f32.f16"
sizes = [4, 4, 4]
blocks = 1
A = { type = "f16", lane = "m0-1", item = "k0-1" }
B = { type = "f16", lane = [[0, 1], [0, 2]], item = [[1, 0], [2, 0]] }
D = { type = "f32", lane = "n0-1", item = "m0-1" }

[instructions.fixed]
sizes = [4, 4, 4]
machines = ["sm_80"]
D = { type = "f32", lane = "n0-1", item = "m0-1" }

[machine]
name = "board"
like = "sm_80"
lanes = 4
registers = 64
costs = { shuffle = 3 }
opcode_costs = { pack_f16 = 2 }
exchanges = ["shuffle"]
"""


@pytest.fixture
def board(tmp_path):
    path = tmp_path / "board.toml"
    path.write_text(BOARD)
    return str(path)


def test_layouts(board):
    layout = find_layout(f"{board}:board")
    assert (layout.name, layout.shape, layout.axes) == (f"{board}:board", (4, 4), ("m", "n"))
    assert layout.element(3, 2) == (2, 3)
    assert find_layout(f"{board}:board@s32^T").element(3, 2) == (3, 2)
    assert find_layout(f"{board}:odd").element(2, 1) == (2, 1)


def test_instructions(board):
    entry = find_instruction(f"{board}:dot4")
    assert (entry.mnemonic, entry.tile("A"), entry.lanes) == ("board.dot4.f32.f16", (4, 4), 4)
    assert find_layout(f"{board}:dot4:C") == find_layout(f"{board}:dot4:D")
    assert find_layout(f"{board}:dot4:A").element(1, 1, 1) == (1, 3)
    assert find_layout(f"{board}:dot4:B").element(1, 1, 1) == (3, 1)
    with pytest.raises(UnsupportedError, match=r"sm_75 has no fixed.*expected one of sm_80"):
        find_layout(f"{board}:fixed:D", find_machine("sm_75"))


def test_the_machine_of_a_file_is_found(board, tmp_path):
    plan = regweave.rearrange(f"{board}:dot4:D@f16^T", f"{board}:dot4:A")
    assert (plan.machine.name, plan.strategy) == ("board", "identity")
    # what it has not the capacity for goes to a machine that has, whole warps before
    values = regweave.layout(f"{board}:board"), regweave.layout(f"{board}:board^T")
    assert regweave.rearrange(*values).machine.name == "sm_80"
    wide = tmp_path / "wide.toml"
    bits = [[1 << bit, 0] for bit in range(6)]
    wide.write_text(f'[layouts.w]\ntile = [64, 1]\ntype = "f32"\nlane = {bits}\nitem = []\n')
    assert regweave.rearrange(f"{wide}:w", f"{wide}:w").machine.lanes == 64
    wide.write_text(wide.read_text() + '[machine]\nname = "wide"\nlike = "sm_80"\nlanes = 16\n')
    assert regweave.rearrange(f"{wide}:w", f"{wide}:w").machine.name == "wide"


def test_machine(board):
    machine, model = find_machine(board), find_machine("sm_80")
    assert find_machine(f"{board}:board").name == machine.name == "board"
    assert (machine.lanes, machine.registers_per_lane, machine.shuffle_widths) == (4, 64, (2, 4))
    assert (machine.costs.shuffle, machine.costs.select) == (3, model.costs.select)
    assert machine.cost("pack_f16", "convert") == 2
    assert machine.exchanges == {"shuffle"}
    assert machine.packings == model.packings
    assert machine.native("dot4")
    assert machine.native("mma.m16n8k8.tf32")
    assert find_layout("dot4:A", machine) is find_layout(f"{board}:dot4:A", machine)
    assert "fixed" not in machine.instructions
    with pytest.raises(InputError, match="no machine 'other' in"):
        find_machine(f"{board}:other")


def test_planning_with_it(board):
    plan = regweave.rearrange(f"{board}:board^T", f"{board}:board", machine=board, strategy="exchange")
    assert (plan.machine.name, plan.group.lanes) == ("board", (0, 1, 2, 3))
    # three of each lane's four words come from other lanes
    assert 3 <= plan.cost.exchanges <= 4


def test_a_changed_file_is_read_again(board, tmp_path):
    assert find_layout(f"{board}:odd").dtype == "f32"
    (tmp_path / "board.toml").write_text(
        BOARD.replace('tile = [3, 2]\ntype = "f32"', 'tile = [3, 2]\ntype = "s32"')
    )
    assert find_layout(f"{board}:odd").dtype == "s32"


LINES = """
[layouts.x]
tile = [4, 4]
type = "f32"
"""
BAD = {
    "overlap": (
        LINES + "lane = [[0, 1], [0, 2]]\nitem = [[1, 0], [1, 0], [2, 0]]",
        r"lane 0 item 2 holds \(1, 0\), as lane 0 item 1 does \(at .*layouts.x\); .*replicated = true",
    ),
    "table with an overlap and a hole": (
        LINES.replace("[4, 4]", "[2, 2]") + "elements = [[[0, 0], [0, 1]], [[0, 1], [1, 1]]]",
        r"no slot holds element \(1, 0\); lane 1 item 0 holds \(0, 1\), as lane 0 item 1 does",
    ),
    "hole": (LINES + "lane = [[0, 1], [0, 2]]\nitem = [[1, 0]]", r"no slot holds element \(2, 0\)"),
    "outside": (
        LINES + "lane = [[0, 1], [0, 2]]\nitem = [[1, 0], [4, 0]]",
        r"lane 0 item 2 holds \(4, 0\) .*expected an element of the 4 x 4 tile",
    ),
    "outside by xor": (
        LINES.replace("4, 4", "6, 6") + "lane = [[0, 1], [0, 2], [0, 4]]\nitem = [[1, 0], [2, 0], [4, 0]]",
        r"lane 0 item 6 holds \(6, 0\)",
    ),
    "wrapped": (
        LINES.replace("4, 4", "1, 3") + "lane = [[0, 1], [0, 2]]\nitem = []",
        r"lane 3 item 0 holds \(0, 3\)",
    ),
    "table outside": (LINES + "elements = [[[0, 0]], [[0, 4]]]", r"lane 1 item 0 holds \(0, 4\)"),
    "ragged": (LINES + "elements = [[[0, 0]], []]", "lane 1 has 0 items, lane 0 1"),
    "no pair": (LINES + "elements = [[[0, 0]], [[1]]]", r"\[1\] is no pair .*lane 1 item 0"),
    "table": (LINES + "elements = 3", "elements is no table"),
    "bit": (LINES + "lane = [[0, 1], 2]\nitem = []", r"2 is no pair .*lane bit 1"),
    "bits": (LINES + 'lane = "n0"\nitem = []', r"lane = 'n0'"),
    "two ways": (LINES + "lane = []\nitem = []\nelements = []", "slots by elements and item and lane"),
    "no way": (LINES, "slots by nothing"),
    "unknown key": (LINES + "lanes = []", r"unknown key 'lanes' .*nearest: lane"),
    "unknown table": ("[layout.x]", r"unknown key 'layout' .*nearest: layouts"),
    "unknown type": (
        LINES.replace("f32", "f23") + "lane = [[0, 1], [0, 2]]\nitem = [[1, 0], [2, 0]]",
        r"element type 'f23' .*bad.toml, .*, type.*nearest: .*f32",
    ),
    "no type": ("[layouts.x]\ntile = [1, 1]", "no type"),
    "type": (LINES.replace('"f32"', "3") + "lane = []\nitem = []", "type = 3"),
    "tile": (LINES.replace("[4, 4]", "[4]") + "lane = []\nitem = []", r"\[4\] is no pair"),
    "axes": (LINES + 'axes = ["m"]\nlane = []\nitem = []', r"axes = \['m'\]"),
    "replicated": (
        LINES.replace("4, 4", "1, 1") + "replicated = 1\nlane = [[0, 0]]\nitem = []",
        "replicated = 1",
    ),
    "replicated of a bijection": (
        LINES.replace("4, 4", "1, 1") + 'replicated = "no"\nlane = []\nitem = []',
        "replicated = 'no' .*true or false",
    ),
    "no tile": (
        LINES.replace("4, 4", "-1, 4") + "lane = []\nitem = []",
        r"tile = \[-1, 4\] .*at least one row",
    ),
    "a suffix": (
        LINES.replace("layouts.x", "layouts.'x@f16'") + "lane = []\nitem = []",
        "'x@f16' cannot name an",
    ),
    "no name": (LINES.replace("layouts.x", "layouts.''") + "lane = []\nitem = []", "'' cannot name an entry"),
    "two lines": (
        LINES.replace("layouts.x", r'layouts."x\n"') + "lane = []\nitem = []",
        "cannot name an entry",
    ),
    "instruction's name": ("[instructions.'a^T']\nsizes = [1, 1, 1]\nD = {}", r"'a\^T' cannot name an entry"),
    "backwards": (
        '[instructions.x]\nsizes = [4, 1, 1]\nD = { type = "f32", lane = "m1-0", item = "" }',
        "'m1-0' is no coordinate",
    ),
    "parts": ("[" + ".".join("a" * 10**5) + "]", "line 1.*at most 1000"),
    "no table": ("layouts = 3", "layouts = 3"),
    "not a layout": ("[layouts]\nx = 3", "3 is no table"),
    "no TOML": ("[layouts", "no TOML"),
    "operand": ("[instructions.x]\nsizes = [1, 1, 1]\nE = {}", "unknown key 'E'"),
    "no D": ("[instructions.x]\nsizes = [1, 1, 1]", "no D"),
    "sizes": ("[instructions.x]\nsizes = [1, 1]\nD = {}", r"sizes = \[1, 1\]"),
    "size": ("[instructions.x]\nsizes = [1, 1, true]\nD = {}", "sizes = True"),
    "blocks": ("[instructions.x]\nsizes = [1, 1, 1]\nblocks = 0\nD = {}", "blocks = 0"),
    "coordinate": (
        '[instructions.x]\nsizes = [2, 1, 1]\nD = { type = "f32", lane = "k0", item = "" }',
        "lane bit k0",
    ),
    "no coordinate": (
        '[instructions.x]\nsizes = [2, 1, 1]\nD = { type = "f32", lane = "mm", item = "" }',
        "'mm' is no coordinate",
    ),
    "lanes disagree": (
        '[instructions.x]\nsizes = [2, 1, 2]\nA = { type = "f32", lane = "", item = "m0 k0" }\n'
        'D = { type = "f32", lane = "m0", item = "" }',
        "different numbers of lanes",
    ),
    "machine": ('[machine]\nname = "x"\nlike = "sm_81"', r"unknown machine 'sm_81'.*nearest: .*sm_80"),
    "machine like a file": ('[machine]\nname = "x"\nlike = "y.toml"', "unknown machine 'y.toml'"),
    "machine key": (
        '[machine]\nname = "x"\nlike = "sm_80"\nlane = 4',
        r"unknown key 'lane' .*nearest: lanes",
    ),
    "cost": (
        '[machine]\nname = "x"\nlike = "sm_80"\ncosts = { shufle = 1 }',
        r"unknown key 'shufle' .*machine, costs.*nearest: shuffle",
    ),
    "no number": ('[machine]\nname = "x"\nlike = "sm_80"\nlanes = "4"', "lanes = '4'"),
    "no list": ('[machine]\nname = "x"\nlike = "sm_80"\nexchanges = "shuffle"', "exchanges = 'shuffle'"),
    "no numbers": ('[machine]\nname = "x"\nlike = "sm_80"\nshared_widths = 4', "shared_widths = 4"),
    "packing": (
        '[machine]\nname = "x"\nlike = "sm_80"\npackings = ["f16"]',
        r"packings has 'f16' .*nearest: pack_f16",
    ),
    "exchange": (
        '[machine]\nname = "x"\nlike = "sm_80"\nexchanges = ["shufle"]',
        r"exchanges has 'shufle' .*nearest: shuffle",
    ),
    "opcode": (
        '[machine]\nname = "x"\nlike = "sm_80"\nopcode_costs = { shufle = 1 }',
        r"unknown key 'shufle' .*opcode_costs",
    ),
    "banks": ('[machine]\nname = "x"\nlike = "sm_80"\nshared_banks = 1', "shared_banks has 1 .*one of 4, 8"),
    "shuffle width": ('[machine]\nname = "x"\nlike = "sm_80"\nshuffle_widths = [3]', "shuffle_widths has 3 "),
    "registers": (
        '[machine]\nname = "x"\nlike = "sm_80"\nregisters = 1000000000',
        "registers = 1000000000 .*1 to 65536",
    ),
    "lines": ('[machine]\nname = "x\\n"\nlike = "sm_80"', r"name = 'x\\n' .*one line of text"),
    "digits": ("x = " + "9" * 5000, "no TOML: Exceeds the limit"),
    "depth": ("x = " + "[" * 5000, "no TOML: maximum recursion depth"),
    "huge tile": (
        LINES.replace("4, 4", f"1, {10**30}") + "lane = []\nitem = []",
        r"1, 1000.*no pair of whole numbers under 2\^62",
    ),
    "longest tile": (
        LINES.replace("4, 4", "1, " + "9" * 4000) + "lane = []\nitem = []",
        r"9\.\.\. .too long to show",
    ),
    "huge bit": (LINES + f"lane = [[0, {10**30}]]\nitem = []", r"no pair of whole numbers .*lane bit 0"),
}


@pytest.mark.parametrize("fault", BAD)
def test_bad_files(fault, tmp_path):
    text, message = BAD[fault]
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        find_layout(f"{path}:x")


def test_replication_is_allowed_where_it_is_meant(tmp_path):
    path = tmp_path / "wide.toml"
    path.write_text(LINES + "replicated = true\nlane = [[0, 1], [0, 2], [0, 0]]\nitem = [[1, 0], [2, 0]]")
    assert len(find_layout(f"{path}:x").slots(0, 0)) == 2


def test_wrong_names(board, tmp_path):
    with pytest.raises(InputError, match=r"no layout 'bord' in .*nearest: board"):
        find_layout(f"{board}:bord")
    with pytest.raises(InputError, match=r"no layout 'dot4:E' in .*nearest: dot4:D"):
        find_layout(f"{board}:dot4:E")
    with pytest.raises(InputError, match=r"no instruction 'dot5' in .*nearest: dot4"):
        find_instruction(f"{board}:dot5")
    with pytest.raises(InputError, match=r"cannot read .*No such file"):
        find_layout(f"{tmp_path}/absent.toml:x")
    with pytest.raises(InputError, match="cannot read"):
        find_machine(f"{tmp_path / 'b'}.toml")
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(InputError, match="no machine in"):
        find_machine(f"{tmp_path}/empty.toml")
    with pytest.raises(InputError, match="a file that has some"):
        find_layout(f"{tmp_path}/empty.toml:x")
    with pytest.raises(InputError, match="names no file"):
        find_layout("a\0b.toml:x")


def test_the_names_that_a_file_may_give_are_those_of_the_catalogue():
    machines = [find_machine(name) for name in machine_names()]
    assert {name for machine in machines for name in machine.packings} == set(PACKINGS)
    assert {name for machine in machines for name in machine.exchanges} == set(EXCHANGES)
    assert (
        {name for machine in machines for name in machine.opcode_costs}
        <= set(OPCODES)
        <= set(programs.OPCODES)
    )
