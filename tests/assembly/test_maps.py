"""What a person reads: the register map and the pressure."""

from regweave.assembly import Builder, Pressure, RegisterMap
from regweave.machines.x86 import AVX512


def listing():
    b = Builder(AVX512, name="dot", arguments=("x", "n", "out"))
    acc, v, quad = b.vector("acc"), b.vector("v"), b.vector("quad", count=4)
    b.emit("zero", acc)
    b.emit_template("foo %=0.0\nfoo %=0.1\nfoo %=0.2\nfoo %=0.3\nfoo %0.3", quad)
    b.label("loop")
    b.emit("load", v, b.at("x"))
    b.emit("fma", acc, v, v)
    b.emit("dec", "n")
    b.emit("jump_nonzero", "loop")
    b.emit("store", b.at("out"), acc)
    return b.finish()


def test_the_register_map(golden):
    found = listing().register_map
    assert isinstance(found, RegisterMap)
    golden("register_map.txt", f"{found}\n")
    assert found.rows[0].registers == ("rsi",)


def test_the_pressure_profile():
    pressure = listing().pressure
    assert isinstance(pressure, Pressure)
    assert pressure.profile["vector"] == (1, 5, 2, 2, 1, 1, 1, 0)
    assert pressure.limit == {"vector": 32, "general": 15, "mask": 7}
    assert str(pressure) == "vector 5 of 32, general 3 of 15, mask 0 of 7"


def test_the_annotated_listing(golden):
    golden("annotated.txt", listing().annotated())
