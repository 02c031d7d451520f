//! The size classes of task cells.

use super::header::Header;

const SMALLEST: usize = size_of::<Header>().next_multiple_of(8);
/// The size of the largest cell. Larger futures and outputs are boxed.
pub(super) const LARGEST: usize = 2304;
pub(super) const CLASSES: usize = class_of(LARGEST) + 1;

/// Returns the size class for a cell of `size` bytes.
///
/// Sizes step by 8 up to 256, so that small tasks waste little memory, then by 32, 64 and 256.
pub(super) const fn class_of(size: usize) -> usize {
    let size = if size < SMALLEST { SMALLEST } else { size };
    let fine = (256 - SMALLEST) / 8;
    if size <= 256 {
        (size - SMALLEST).div_ceil(8)
    } else if size <= 512 {
        fine + (size - 256).div_ceil(32)
    } else if size <= 1024 {
        fine + 8 + (size - 512).div_ceil(64)
    } else {
        fine + 16 + (size - 1024).div_ceil(256)
    }
}

/// Returns the cell size of a class.
pub(super) const fn class_bytes(class: usize) -> usize {
    let fine = (256 - SMALLEST) / 8;
    if class <= fine {
        SMALLEST + class * 8
    } else if class <= fine + 8 {
        256 + (class - fine) * 32
    } else if class <= fine + 16 {
        512 + (class - fine - 8) * 64
    } else {
        1024 + (class - fine - 16) * 256
    }
}

const _: () = {
    let mut size = SMALLEST;
    while size <= LARGEST {
        let class = class_of(size);
        assert!(class_bytes(class) >= size && (class == 0 || class_bytes(class - 1) < size));
        size += 1;
    }
};
