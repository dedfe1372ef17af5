//! The routines for AArch64.
//!
//! They are leaves that touch no stack, so that the way out is the same from everywhere: `ret`.

use super::Outcome;

core::arch::global_asm!(
    ".pushsection .text.ferroce_guard,\"ax\",@progbits",
    ".globl ferroce_guard_begin, ferroce_guard_end, ferroce_guard_faulted",
    ".globl ferroce_guard_copy, ferroce_guard_copy_upwards",
    ".globl ferroce_guard_store, ferroce_guard_compare_exchange",
    ".hidden ferroce_guard_begin, ferroce_guard_end, ferroce_guard_faulted",
    ".hidden ferroce_guard_copy, ferroce_guard_copy_upwards",
    ".hidden ferroce_guard_store, ferroce_guard_compare_exchange",
    ".p2align 6",
    "ferroce_guard_begin:",
    // x0: target, x1: source, x2: length.
    "ferroce_guard_copy:",
    ".cfi_startproc",
    "cmp x2, #16",
    "b.lo 24f",
    // The last 16 bytes are loaded first and stored last; what is before them goes in steps of 64
    // and 16, of which the last overlaps them.
    "add x3, x1, x2",
    "add x4, x0, x2",
    "ldur q7, [x3, #-16]",
    "cmp x2, #64",
    "b.lo 22f",
    "20:",
    "ldp q0, q1, [x1]",
    "ldp q2, q3, [x1, #32]",
    "add x1, x1, #64",
    "stp q0, q1, [x0]",
    "stp q2, q3, [x0, #32]",
    "add x0, x0, #64",
    "sub x2, x2, #64",
    "cmp x2, #64",
    "b.hs 20b",
    "22:",
    "cmp x2, #16",
    "b.ls 23f",
    "ldr q0, [x1], #16",
    "str q0, [x0], #16",
    "sub x2, x2, #16",
    "b 22b",
    "23:",
    "stur q7, [x4, #-16]",
    "mov x0, #0",
    "ret",
    // Fewer than 16, by two loads that overlap.
    "24:",
    "add x3, x1, x2",
    "add x4, x0, x2",
    "tbz x2, #3, 25f",
    "ldr x5, [x1]",
    "ldur x6, [x3, #-8]",
    "str x5, [x0]",
    "stur x6, [x4, #-8]",
    "mov x0, #0",
    "ret",
    "25:",
    "tbz x2, #2, 26f",
    "ldr w5, [x1]",
    "ldur w6, [x3, #-4]",
    "str w5, [x0]",
    "stur w6, [x4, #-4]",
    "mov x0, #0",
    "ret",
    "26:",
    "cbz x2, 27f",
    "lsr x5, x2, #1",
    "ldrb w6, [x1]",
    "ldrb w7, [x1, x5]",
    "ldurb w8, [x3, #-1]",
    "strb w6, [x0]",
    "strb w7, [x0, x5]",
    "sturb w8, [x4, #-1]",
    "27:",
    "mov x0, #0",
    "ret",
    ".cfi_endproc",
    // The same, byte by byte. What was stored before is seen before the first.
    ".p2align 4",
    "ferroce_guard_copy_upwards:",
    ".cfi_startproc",
    "cbz x2, 31f",
    "30:",
    "ldrb w3, [x1], #1",
    "stlrb w3, [x0]",
    "add x0, x0, #1",
    "subs x2, x2, #1",
    "b.ne 30b",
    "31:",
    "mov x0, #0",
    "ret",
    ".cfi_endproc",
    // x0: target, x1: word.
    ".p2align 4",
    "ferroce_guard_store:",
    ".cfi_startproc",
    "stlr x1, [x0]",
    "mov x0, #0",
    "ret",
    ".cfi_endproc",
    // x0: target, x1: old, x2: new, x3: where the previous word goes, which is ours.
    ".p2align 4",
    "ferroce_guard_compare_exchange:",
    ".cfi_startproc",
    "40:",
    "ldaxr x4, [x0]",
    "cmp x4, x1",
    "csel x5, x2, x4, eq",
    // A word that stays is stored as well, so that memory which is only to be read is a fault.
    "stlxr w6, x5, [x0]",
    "cbnz w6, 40b",
    "str x4, [x3]",
    "mov x0, #0",
    "ret",
    ".cfi_endproc",
    "ferroce_guard_end:",
    // The way out.
    "ferroce_guard_faulted:",
    ".cfi_startproc",
    "mov x0, #1",
    "ret",
    ".cfi_endproc",
    ".popsection",
);

unsafe extern "C" {
    fn ferroce_guard_copy(target: *mut u8, source: *const u8, length: usize) -> Outcome;
}

/// Where the interrupted thread goes on. A register is as wide as an address.
pub(super) fn program_counter(context: &mut libc::ucontext_t) -> &mut u64 {
    &mut context.uc_mcontext.pc
}

/// One for every length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Routines;

impl Routines {
    pub(super) fn detect() -> Self {
        Self
    }

    /// # Safety
    /// As [`super::Guard::copy`].
    #[inline]
    pub(super) unsafe fn copy(self, target: *mut u8, source: *const u8, length: usize) -> Outcome {
        // SAFETY: the caller's promise.
        unsafe { ferroce_guard_copy(target, source, length) }
    }
}
