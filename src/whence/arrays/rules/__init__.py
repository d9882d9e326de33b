"""Which rule serves which NumPy function, as one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from whence.arrays.rules import (
    assignment,
    bins,
    cellwise,
    choosing,
    covariance,
    creation,
    flat,
    indexing,
    joining,
    lanes,
    linear,
    methods,
    movement,
    operators,
    order,
    reduce,
    stencil,
    ufuncs,
    writing,
)
from whence.arrays.rules.arguments import parameters, settled
from whence.arrays.rules.base import describe, sharing, verdict
from whence.arrays.rules.fallback import unknown
from whence.arrays.tracked import RULES, FunctionRule, TrackedArray, hooks

FAMILY: dict[Callable[..., Any], str] = {}
_AS_GIVEN: tuple[FunctionRule, ...] = (
    describe,
    sharing,
    verdict,
    movement.block,
    lanes.apply_along_axis,
    lanes.piecewise,
)


def _serve(family: str, rule: FunctionRule, names: str, module: Any = np) -> None:
    for name in names.split():
        func = getattr(module, name, None)
        if func is not None:
            RULES[func] = rule if rule in _AS_GIVEN else settled(rule, parameters(func))
            FAMILY[func] = family


_serve("element-wise", movement.elementwise,
       "around round fix angle real imag sinc nan_to_num i0 isclose iscomplex isreal isneginf "
       "isposinf")  # fmt: skip
_serve("element-wise", movement.real_if_close, "real_if_close")
_serve("element-wise", cellwise.each, "unravel_index busday_count busday_offset is_busday")
_serve("element-wise", cellwise.dated, "datetime_as_string")
_serve("element-wise", cellwise.position, "ravel_multi_index")
_serve("element-wise", cellwise.each,
       "upper lower capitalize swapcase title translate slice", np.strings)  # fmt: skip
_serve("element-wise", cellwise.sized_texts,
       "replace mod multiply center ljust rjust zfill expandtabs encode decode partition "
       "rpartition", np.strings)  # fmt: skip
_serve("movement", movement.moved,
       "moveaxis rollaxis swapaxes transpose permute_dims matrix_transpose "
       "atleast_1d atleast_2d atleast_3d broadcast_to broadcast_arrays expand_dims squeeze flip "
       "fliplr flipud rot90 diagonal diag diagflat tril triu unstack meshgrid")  # fmt: skip
_serve("movement", movement.block, "block")
_serve("movement", movement.open_mesh, "ix_")
_serve("movement", movement.in_order, "ravel reshape")
_serve("movement", movement.shared_out, "resize split array_split hsplit vsplit dsplit")
_serve("movement", movement.cast, "copy astype")
_serve("movement", movement.along_axis("indices"), "take")
_serve("movement", movement.along_axis("repeats"), "repeat")
_serve("movement", movement.along_axis("obj"), "delete")
_serve("movement", movement.insert, "insert")
_serve("movement", movement.selecting("indices"), "take_along_axis")
_serve("movement", movement.selecting("condition"), "compress extract")
_serve("movement", movement.selecting("a"), "choose")
_serve("movement", movement.roll, "roll")
_serve("movement", movement.tile, "tile")
_serve("movement", movement.pad, "pad")
_serve("movement", joining.joined,
       "concatenate concat stack vstack hstack column_stack dstack append")  # fmt: skip
_serve("description", describe,
       "shape ndim size iscomplexobj isrealobj result_type can_cast common_type "
       "min_scalar_type")  # fmt: skip
_serve("description", sharing, "shares_memory may_share_memory")
_serve("description", verdict, "allclose array_equal array_equiv")
_serve("blank", creation.blank, "zeros_like ones_like empty_like full_like")
_serve("reduction", reduce.reduction(), "sum prod mean std var any all count_nonzero")
_serve("reduction", reduce.reduction(nan=True), "nansum nanprod nanmean nanstd nanvar")
_serve("reduction", reduce.average, "average")
_serve("reduction", reduce.trace, "trace")
_serve("scan", reduce.scan, "cumsum cumprod cumulative_sum cumulative_prod")
_serve("scan", stencil.unwrap, "unwrap")
_serve("choice", reduce.reduction("max"), "max amax")
_serve("choice", reduce.reduction("min"), "min amin")
_serve("choice", reduce.reduction("max", nan=True), "nanmax")
_serve("choice", reduce.reduction("min", nan=True), "nanmin")
_serve("choice", reduce.ptp, "ptp")
_serve("choice", order.argextreme, "argmax argmin nanargmax nanargmin")
_serve("choice", order.clip, "clip")
_serve("choice", choosing.where, "where")
_serve("choice", choosing.select, "select")
_serve("python", lanes.apply_along_axis, "apply_along_axis")
_serve("python", lanes.piecewise, "piecewise")
_serve("order", order.sort, "sort partition")
_serve("order", order.argsort, "argsort argpartition")
_serve("order", order.quantile,
       "median percentile quantile nanmedian nanpercentile nanquantile")  # fmt: skip
_serve("order", order.unique, "unique")
_serve("order", bins.searchsorted, "searchsorted digitize")
_serve("order", bins.bincount, "bincount")
_serve("order", bins.histogram, "histogram")
_serve("order", bins.interp, "interp")
_serve("order", order.trim_zeros, "trim_zeros")
_serve("order", choosing.nonzero, "nonzero argwhere flatnonzero")
_serve("writing", writing.copyto, "copyto")
_serve("writing", writing.putmask, "putmask")
_serve("writing", writing.place, "place")
_serve("writing", writing.put_function, "put")
_serve("writing", writing.put_along_axis, "put_along_axis")
_serve("writing", writing.fill_diagonal, "fill_diagonal")
_serve("linear", linear.dot, "dot")
_serve("linear", linear.inner, "inner")
_serve("linear", linear.vdot, "vdot")
_serve("linear", linear.outer, "outer")
_serve("linear", linear.tensordot, "tensordot")
_serve("linear", linear.einsum, "einsum")
_serve("linear", linear.kron, "kron")
_serve("linear", covariance.covariance, "cov corrcoef")
_serve("linear", linear.multi_dot, "multi_dot", np.linalg)
_serve("linear", linear.cross, "cross")
_serve("linear", stencil.convolve, "convolve correlate")
_serve("linear", stencil.windows, "sliding_window_view", np.lib.stride_tricks)
_serve("linear", stencil.trapezoid, "trapezoid")
_serve("linear", stencil.diff, "diff")
_serve("linear", stencil.ediff1d, "ediff1d")
_serve("linear", stencil.gradient, "gradient")
_serve("matrix", linear.solve, "solve", np.linalg)
_serve("matrix", linear.norm, "norm", np.linalg)
_serve("matrix", linear.matrices(), "inv pinv det slogdet", np.linalg)
_serve("matrix", linear.matrices(exact=False),
       "eig eigh eigvals eigvalsh svd svdvals qr cholesky matrix_power cond "
       "matrix_rank", np.linalg)  # fmt: skip
_serve("matrix", linear.matrices(exact=False, core=None), "lstsq tensorinv tensorsolve", np.linalg)
_serve("matrix", linear.transform,
       "fft ifft rfft irfft hfft ihfft fft2 ifft2 fftn ifftn rfft2 irfft2 rfftn irfftn",
       np.fft)  # fmt: skip


hooks.unknown = unknown
TrackedArray.__array_ufunc__ = ufuncs.call
operators.install()
hooks.get, hooks.put = indexing.get, assignment.put
hooks.method, hooks.set_shape = methods.method_of, methods.set_shape
hooks.set_part, hooks.flat = methods.set_part, flat.Flat
