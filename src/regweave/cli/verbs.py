"""The verbs of the program `regweave` and the words of its help; `app` makes the program of them.

    $ regweave fuse --help      # the verb's sentence, what `fuse_command` documents, the verb's examples

The verb `fuse` is `fuse_command` in `regweave.cli.fuse`, and so for each; the module is imported when
the verb is used, or when help needs its parameters.
"""

from __future__ import annotations

HELP = "Keep data in registers: fuse cascades of matrix products, plan moves between registers, measure."
EPILOGUE = """Examples:

    regweave fuse model.onnx --threads 2
    regweave rearrange mma.m16n8k8.tf32:C mma.m16n8k8.tf32:A
    regweave layout mma.m16n8k8.tf32:C --where 9 2
    regweave machine sm_90a
    regweave asm kernel.rws --machine gfx906 -o kernel.co
    regweave image photo.jpg --op sepia -o old.jpg
    regweave filter photo.jpg --kernel gaussian5 -o soft.jpg
    regweave conv --shape 1x3x1080x1920 --kernel 16x3x3x3
    regweave bench cascade
    regweave doctor

Exit codes: 0 done, 1 a check failed, 2 bad input, 3 not supported, 130 interrupted, 143 terminated.
"""

#: verb -> what it does, and examples for its help
VERBS = {
    "fuse": (
        "Fuse the cascades of an ONNX model, verify, report.",
        """Examples:

    regweave fuse model.onnx
    regweave fuse model.onnx --dim batch=1 --dim 'x[3]=320' --out fused/
    regweave fuse model.onnx --fuse MatMul_3,MatMul_5 --apart Conv_9 --json
    regweave fuse model.onnx --machine sm_80 --dtype tf32
""",
    ),
    "rearrange": (
        "Show how data moves between the registers of a warp from one layout to another.",
        """Examples:

    regweave rearrange mma.m16n8k8.tf32:C mma.m16n8k8.tf32:A
    regweave rearrange mma.m16n8k8.tf32:C mma.m16n8k8.tf32:A --strategy direct
    regweave rearrange mma.m16n8k16.f16:C mma.m16n8k16.f16:B --emit opencl
    regweave rearrange mine.csv@f16 mma.m16n8k16.f16:A --out seam/
""",
    ),
    "layout": (
        "Show which element lives in which register of which lane.",
        """Examples:

    regweave layout mma.m16n8k8.tf32:C
    regweave layout mma.m16n8k8.tf32:C --where 9 2
    regweave layout mma.m16n8k16.f16:A --slot 5 2
    regweave layout mma.m16n8k8.tf32:C --matrix --csv
    regweave layout v_mfma_f32_32x32x8_f16:D --svg d.svg
    regweave layout '((4,8),(2,2)):((32,1),(16,8))' --tile 16x8 --triton
""",
    ),
    "machine": (
        "List the machines, or show one: lanes, registers, exchanges, costs, matrix instructions.",
        """Examples:

    regweave machine
    regweave machine gfx942
    regweave machine gfx942 v_mfma_f32_32x32x8_f16
    regweave machine sm_90a --json
""",
    ),
    "asm": (
        "Assemble a GPU kernel that was written with named registers; show where each of them went.",
        """Examples:

    regweave asm scale.rws --machine gfx906
    regweave asm scale.rws --machine gfx906 -o scale.co --map scale.html
    regweave asm scale.rws --trace
    regweave asm gemm.py --machine gfx90a --json
""",
    ),
    "image": (
        "Multiply an image's pixels or patches by a matrix: colours, filter banks, your own.",
        """Examples:

    regweave image photo.jpg --op sepia -o old.jpg
    regweave image photo.png --op mine.txt -o out.png --json
    regweave image photo.jpg --op gabor -o responses.png
    regweave image photo.jpg --op dct8 --stride 8 -o 'plane-{}.png'
    regweave image small.png --op grey -o grey.png --machine gfx906 --precision i8
""",
    ),
    "conv": (
        "Plan a convolution for a device: how rows are rearranged, threads, registers, time.",
        """Examples:

    regweave conv --shape 1x3x1080x1920 --kernel 16x3x3x3 --padding 1
    regweave conv --shape 1x3x224x224 --kernel 64x3x7x7 --stride 2 --machine bifrost-g76 --svg plan.svg
    regweave conv --shape 1x8x512x512 --kernel 8x8x3x3 --machine opencl-cpu --emit opencl
    regweave conv --shape 1x3x224x224 --kernel 64x3x7x7 --json
""",
    ),
    "filter": (
        "Convolve an image with a small kernel: blur, edges, sharpening, your own.",
        """Examples:

    regweave filter photo.jpg --kernel gaussian5 -o soft.jpg
    regweave filter photo.png --kernel sobel -o edges.png --json
    regweave filter photo.tif --kernel box9 --stride 4 -o small.tif
    regweave filter photo.jpg --kernel mine.txt --border mirror -o out.png
""",
    ),
    "bench": (
        "Measure cascades, products, whole models and rearrangements side by side with other libraries.",
        """Examples:

    regweave bench cascade --threads 1
    regweave bench gemm --threads 2 --json
    regweave bench conv --threads 2
    regweave bench models --threads 2
    regweave bench rearrange --case 'f16 C -> B'
""",
    ),
    "doctor": (
        "Say what this machine and this installation can do.",
        """Examples:

    regweave doctor
    regweave doctor --json
""",
    ),
}
