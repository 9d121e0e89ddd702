//! Whether a compound file is all there: its own table says which sectors are in use.
//!
//! Only the table is looked at, at most as much of it as the file can hold.

const FREE: u32 = 0xffff_ffff;
/// Numbers above this one mark sectors, they do not count them.
const LAST: u32 = 0xffff_fffa;
const HEADER: usize = 512;

/// Whether the file ends before the last sector that its table has in use.
pub(super) fn ends_early(bytes: &[u8]) -> bool {
    let Some(header) = bytes.get(..HEADER) else { return true };
    let Some(shift) = header.get(30).copied().filter(|shift| (7..=16).contains(shift)) else { return false };
    let size = 1_usize << shift;
    let mut highest = None;
    for (number, table) in (76..HEADER).step_by(4).filter_map(|at| number(header, at)).enumerate() {
        if table >= LAST {
            break;
        }
        let Some(start) = usize::try_from(table).ok().and_then(|table| offset(table, size)) else {
            return false;
        };
        let Some(sectors) = bytes.get(start..start.saturating_add(size)) else { return true };
        let used =
            (0..size / 4).rev().find(|entry| number_at(sectors, *entry).is_some_and(|next| next != FREE));
        if let Some(entry) = used {
            highest = Some(number * (size / 4) + entry);
        }
    }
    // The last sector may be short: writers leave out its padding.
    highest.and_then(|highest| offset(highest, size)).is_some_and(|start| start >= bytes.len())
}

fn offset(sector: usize, size: usize) -> Option<usize> {
    sector.checked_add(1)?.checked_mul(size)
}

fn number_at(bytes: &[u8], index: usize) -> Option<u32> {
    number(bytes, index * 4)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
