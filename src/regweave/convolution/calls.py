"""`regweave.conv2d` and `regweave.Conv2d`: images in, images out, nothing copied on the way.

    >>> y = regweave.conv2d(x, w, b, padding="same_upper", activation="relu")
    >>> layer = regweave.Conv2d(w, b, stride=2, padding=1)        # packs once
    >>> layer(x, out=y)

Images of any strides are read where they are and results of any strides written where they belong: a channels
last image is one whose channels lie side by side, a mirrored one has a negative stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.cascades.arrays import address_of, take, writable
from regweave.cascades.device import choose_machine
from regweave.cascades.threads import thread_count
from regweave.convolution.decision import ORDERS, dense_strides
from regweave.convolution.halves import convolve_halves
from regweave.convolution.planes.form import FORMS, combines
from regweave.convolution.planes.strips import LINE, untransformed
from regweave.convolution.portable import run_portable
from regweave.convolution.preparing import LayerCode
from regweave.convolution.results import new_result, paged
from regweave.errors import InputError, UnsupportedError, unknown_name
from regweave.operators import Convolution, Elementwise, activation, convolution_of

if TYPE_CHECKING:
    from regweave.convolution.planes.native import DenseConvolution

_FLOAT = np.dtype(np.float32)


def conv2d(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    activation: str | Elementwise | None = None,
    order: str = "nchw",
    out: Any = None,
    threads: int | None = None,
    form: str | None = None,
    isa: str | None = None,
) -> Any:
    """activation(convolution of x with w + bias); see `Conv2d`, which packs the weights once."""
    layer = Conv2d(
        w,
        bias,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        activation=activation,
        order=order,
        threads=threads,
        form=form,
        isa=isa,
    )
    return layer(x, out=out)


class Conv2d:
    """A convolution with its weights packed: `layer(x)` or `layer(x, out=y)`.

    `weights` [filters, channels / groups, kernel height, kernel width], `bias` [filters] or None. x is
    [batch, channels, height, width]; with order "nhwc" it and the result are [batch, height, width,
    channels]. Without the height everywhere it is a convolution of signals. `stride`, `padding`,
    `dilation`, `groups` as in `operators.convolution_of`, `activation` as in `cascade`, or several operators.
    `form`: "none", "polyphase", "unrolled" or "transformed" insists on how rows are rearranged. `threads` at
    most work on a call; None: all processors of this process. It may be called from several threads.
    Arrays of float16 are taken too: the result of such an x is float16, its sums are float32. Errors:
    InputError for shapes that do not meet, element types, unknown words.
    """

    def __init__(
        self,
        weights: Any,
        bias: Any = None,
        *,
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        activation: str | Elementwise | Sequence[Elementwise] | None = None,
        order: str = "nchw",
        threads: int | None = None,
        form: str | None = None,
        isa: str | None = None,
    ) -> None:
        self.threads, self.machine = thread_count(threads), choose_machine(isa)
        self.form = None if form is None else _one_of(form, "form", FORMS)
        self.weights = np.array(take(weights, "weights", halves=True)[0], np.float32, order="C")
        if self.weights.ndim not in (3, 4):
            raise InputError(
                f"the shape is {list(self.weights.shape)}",
                where="weights",
                expected="[filters, channels / groups, kernel height, kernel width], or without the height",
            )
        self.bias = None if bias is None else _bias(bias, len(self.weights))
        self.order = _one_of(order.lower() if isinstance(order, str) else order, "order", ORDERS)
        self.epilogue = _epilogue(activation)
        self._isa = self.machine.name if self.machine is not None else "portable"
        self._settings: dict[str, Any] = {
            "strides": stride,
            "padding": padding,
            "dilations": dilation,
            "groups": groups,
        }
        self._code: LayerCode | None = None
        if self.machine is not None:
            self._code = LayerCode(self.weights, self.bias, self.epilogue, self.machine, self.threads)
        self._last: tuple[Any, ...] | None = None

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.weights.shape))
        settings = [f"{word} {value}" for word, value in self._settings.items()]
        return f"<Conv2d {', '.join([shape, *settings, *map(str, self.epilogue)])}; {self._isa}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # code belongs to the process that made it: a copy is compiled anew
        given = self._settings
        again = partial(
            type(self),
            stride=given["strides"],
            padding=given["padding"],
            dilation=given["dilations"],
            groups=given["groups"],
            activation=self.epilogue,
            order=self.order,
            threads=self.threads,
            form=self.form,
            isa=self._isa,
        )
        return again, (self.weights, self.bias)

    def convolution(self, shape: Sequence[int]) -> Convolution:
        """The convolution of an image of that shape, in the order of this layer. Errors: InputError."""
        if len(shape) != self.weights.ndim:
            raise InputError(
                f"an image of shape {list(shape)} for weights of shape {list(self.weights.shape)}",
                where="x",
                expected=f"{self.weights.ndim} dimensions",
            )
        planar = (shape[0], shape[-1], *shape[1:-1]) if self.order == "nhwc" else tuple(shape)
        return convolution_of(planar, self.weights.shape, **self._settings)

    def dense(
        self,
        shape: Sequence[int],
        x_strides: tuple[int, ...] | None = None,
        y_strides: tuple[int, ...] | None = None,
        *,
        finite: bool = True,
    ) -> DenseConvolution:
        """What runs an image [batch, channels, height, width] of that shape, densely packed.

        `x_strides` and `y_strides` are bytes from one image, channel, row and element to the next where that
        is not so; elements lie one after the other. Without `finite` no form is taken that would carry an
        infinity to rows around it. Errors: InputError; UnsupportedError on machines without kernels.
        """
        from regweave.convolution.planes.native import DenseConvolution

        c, code = self.convolution(shape), self._code
        if code is None or self.order != "nchw" or len(shape) != 4:
            raise UnsupportedError("only images of order nchw on machines with kernels are run from outside")

        strides = x_strides or dense_strides(c.image_shape), y_strides or dense_strides(c.out_shape)
        form = self.form if finite or not combines(c) else untransformed(c)
        native, packed = code.for_strides(c, *strides, form, planes=True)
        return DenseConvolution(native, packed, c.out_shape)

    def __call__(self, x: Any, *, out: Any = None) -> Any:
        """The result, of x's own kind, or `out`, which it was written to. Errors: InputError."""
        done = self._again(x, out)
        if done is not None:
            return done
        image, wrap = take(x, "x", halves=True)
        c = self.convolution(image.shape)
        shape = c.out_shape
        if self.order == "nhwc":
            shape = (shape[0], *shape[2:], shape[1])
        if out is None:
            result = new_result(image, shape, self.order)
            self._run(c, image, result)
            return wrap(result)
        target = writable(out, shape, image.dtype.type)
        apart = not np.may_share_memory(target, image)
        result = target if apart else new_result(image, shape, self.order)
        self._run(c, image, result)
        if not apart:
            target[...] = result
        return out

    def _again(self, x: Any, out: Any) -> Any:
        """The result if x and out are laid out as those of the call before; None, with nothing done, if not.

        Most calls repeat the one before on other numbers, and all checks would then take longer than a small
        image does.
        """
        last = self._last
        if last is None or type(x) is not np.ndarray or (out is not None and type(out) is not np.ndarray):
            return None
        layout, shape, native, packed, alignment = last
        y = new_result(x, shape, self.order) if out is None else out
        same = layout == (x.shape, x.strides, y.shape, y.strides) and x.dtype is y.dtype is _FLOAT
        if not same or not y.flags.writeable or np.may_share_memory(x, y):
            return None
        to = address_of(y)
        return None if to % alignment or not native.run(address_of(x), to, packed) else y

    def _run(self, c: Convolution, image: np.ndarray, result: np.ndarray) -> None:
        if result.size == 0:
            return
        x, y = (self._planar(array) for array in (image, result))
        if image.dtype == np.float16:
            convolve_halves(c, x, y, self._compute)
            return
        used = self._compute(c, x, y)
        if used is not None and self.machine is not None and (x.strides[3] != 4 or not paged(x, y)):
            native, packed = used
            alignment = LINE if native.choice.tile.stream else 1
            layout = (image.shape, image.strides, result.shape, result.strides)
            self._last = (layout, result.shape, native, packed, alignment)

    def _compute(self, c: Convolution, x: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray] | None:
        """y = the result for x, both [batch, channels, height, width]; the code and weights that are tried
        first, None where there is no code."""
        code = self._code
        if code is None:
            run_portable(c, x, self.weights, self.bias, self.epilogue, y)
            return None
        used = native, packed = code.for_arrays(c, x, y, self.form)
        if not native.run(x.ctypes.data, y.ctypes.data, packed):
            # an infinity, a NaN or an overflow, which a transform would carry to rows around it
            native, packed = code.for_arrays(c, x, y, untransformed(c))
            native.run(x.ctypes.data, y.ctypes.data, packed)
        return used

    def _planar(self, array: np.ndarray) -> np.ndarray:
        """[batch, channels, height, width], a view."""
        if self.order == "nhwc":
            array = np.moveaxis(array, -1, 1)
        return array if array.ndim == 4 else array[:, :, None]


def _bias(bias: Any, filters: int) -> np.ndarray:
    vector = np.array(take(bias, "bias", halves=True)[0], np.float32)
    if vector.shape != (filters,):
        raise InputError(f"the shape is {list(vector.shape)}", where="bias", expected=f"[{filters}]")
    return vector


def _one_of(word: Any, where: str, known: Sequence[str]) -> str:
    if not isinstance(word, str) or word not in known:
        raise unknown_name(where, word, known, where=where)
    return word


def _epilogue(given: str | Elementwise | Sequence[Elementwise] | None) -> tuple[Elementwise, ...]:
    if isinstance(given, Sequence) and not isinstance(given, str):
        return tuple(op for word in given if (op := activation(word)) is not None)
    op = activation(given)
    return () if op is None else (op,)
