"""Images as matrices: pixels or patches as rows, times a matrix, on the CPU or on AMD GPUs; their files.

`image_gemm` is what people call; `operation` has ready matrices, `read_image` and `write_image` files.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.images.files import Picture, read_image, write_image
    from regweave.images.filters import ImageFilter, filter_image, filter_names, image_filter
    from regweave.images.operations import Operation, operation, operation_names, principal_matrix
    from regweave.images.planes import contact_sheet, show_planes
    from regweave.images.product import ImageProduct, image_gemm
    from regweave.images.windows import filter_bank, patches

__all__ = [
    "ImageFilter",
    "ImageProduct",
    "Operation",
    "Picture",
    "contact_sheet",
    "filter_bank",
    "filter_image",
    "filter_names",
    "image_filter",
    "image_gemm",
    "operation",
    "operation_names",
    "patches",
    "principal_matrix",
    "read_image",
    "show_planes",
    "write_image",
]

__getattr__ = lazy_names(
    __name__,
    files=("Picture", "read_image", "write_image"),
    filters=("ImageFilter", "filter_image", "filter_names", "image_filter"),
    operations=("Operation", "operation", "operation_names", "principal_matrix"),
    planes=("contact_sheet", "show_planes"),
    product=("ImageProduct", "image_gemm"),
    windows=("filter_bank", "patches"),
)
