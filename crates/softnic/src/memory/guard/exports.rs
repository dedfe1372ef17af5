//! What the assembly of every processor has: its beginning, its end, its way out, and the routines for
//! words and tails.

use super::{Outcome, routines};

unsafe extern "C" {
    static ferroce_guard_begin: u8;
    static ferroce_guard_end: u8;
    static ferroce_guard_faulted: u8;
    #[link_name = "ferroce_guard_copy_upwards"]
    pub(super) fn copy_upwards(target: *mut u8, source: *const u8, length: usize) -> Outcome;
    #[link_name = "ferroce_guard_store"]
    pub(super) fn store(target: *mut u64, word: u64) -> Outcome;
    #[link_name = "ferroce_guard_compare_exchange"]
    pub(super) fn compare_exchange(
        target: *mut u64,
        old: u64,
        new: u64,
        previous: *mut u64,
    ) -> Outcome;
}

/// Leads a thread out of the routines, if its fault happened there. Returns whether it did.
pub(super) fn way_out(context: &mut libc::ucontext_t) -> bool {
    let at = routines::program_counter(context);
    let routines = (&raw const ferroce_guard_begin).addr()..(&raw const ferroce_guard_end).addr();
    let is_ours = routines.contains(&(*at as usize));
    if is_ours {
        *at = (&raw const ferroce_guard_faulted).addr() as _;
    }
    is_ours
}
