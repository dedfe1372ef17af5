//! The routines for x86-64.
//!
//! They are leaves that push nothing, so that the way out is the same from everywhere: `ret`. Few bytes
//! are copied by two loads that overlap, some by a loop of 32-byte registers, and many by the processor's
//! own `rep movsb`. The C library's `memcpy` changes methods at the same lengths, and is no faster.

use core::arch::x86_64::__cpuid_count;

use super::Outcome;

/// Up to here by loads that overlap.
const FEW: usize = 128;
/// From here on by `rep movsb`.
const MANY: usize = 3072;

core::arch::global_asm!(
    ".pushsection .text.ferroce_guard,\"ax\",@progbits",
    ".globl ferroce_guard_begin, ferroce_guard_end, ferroce_guard_faulted",
    ".globl ferroce_guard_copy_few, ferroce_guard_copy_some, ferroce_guard_copy_many",
    ".globl ferroce_guard_copy_upwards, ferroce_guard_store, ferroce_guard_compare_exchange",
    ".hidden ferroce_guard_begin, ferroce_guard_end, ferroce_guard_faulted",
    ".hidden ferroce_guard_copy_few, ferroce_guard_copy_some, ferroce_guard_copy_many",
    ".hidden ferroce_guard_copy_upwards, ferroce_guard_store, ferroce_guard_compare_exchange",
    ".p2align 6",
    "ferroce_guard_begin:",
    // rdi: target, rsi: source, rdx: length, up to 128. Everything is loaded before it is stored.
    "ferroce_guard_copy_few:",
    ".cfi_startproc",
    "cmp rdx, 16",
    "jae 22f",
    "cmp edx, 8",
    "jae 21f",
    "cmp edx, 4",
    "jae 20f",
    "test edx, edx",
    "je 29f",
    "movzx eax, byte ptr [rsi]",
    "movzx ecx, byte ptr [rsi + rdx - 1]",
    "shr edx",
    "movzx r8d, byte ptr [rsi + rdx]",
    "mov byte ptr [rdi + rdx], r8b",
    "adc rdx, rdx",
    "mov byte ptr [rdi], al",
    "mov byte ptr [rdi + rdx - 1], cl",
    "xor eax, eax",
    "ret",
    "20:",
    "mov eax, dword ptr [rsi]",
    "mov ecx, dword ptr [rsi + rdx - 4]",
    "mov dword ptr [rdi], eax",
    "mov dword ptr [rdi + rdx - 4], ecx",
    "xor eax, eax",
    "ret",
    "21:",
    "mov rax, qword ptr [rsi]",
    "mov rcx, qword ptr [rsi + rdx - 8]",
    "mov qword ptr [rdi], rax",
    "mov qword ptr [rdi + rdx - 8], rcx",
    "xor eax, eax",
    "ret",
    "22:",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + rdx - 16]",
    "cmp edx, 32",
    "jbe 23f",
    "movups xmm2, [rsi + 16]",
    "movups xmm3, [rsi + rdx - 32]",
    "cmp edx, 64",
    "jbe 24f",
    "movups xmm4, [rsi + 32]",
    "movups xmm5, [rsi + 48]",
    "movups xmm6, [rsi + rdx - 64]",
    "movups xmm7, [rsi + rdx - 48]",
    "movups [rdi + 32], xmm4",
    "movups [rdi + 48], xmm5",
    "movups [rdi + rdx - 64], xmm6",
    "movups [rdi + rdx - 48], xmm7",
    "24:",
    "movups [rdi + 16], xmm2",
    "movups [rdi + rdx - 32], xmm3",
    "23:",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "29:",
    "xor eax, eax",
    "ret",
    ".cfi_endproc",
    // The same, for more than 128 bytes. The ends are loaded first; between them, if they do not
    // meet, stores are aligned.
    ".p2align 6",
    "ferroce_guard_copy_some:",
    ".cfi_startproc",
    "vmovups ymm4, [rsi]",
    "vmovups ymm5, [rsi + rdx - 32]",
    "cmp rdx, 256",
    "ja 32f",
    "vmovups ymm0, [rsi + 32]",
    "vmovups ymm1, [rsi + 64]",
    "vmovups ymm2, [rsi + 96]",
    "vmovups ymm3, [rsi + rdx - 64]",
    "vmovups ymm6, [rsi + rdx - 96]",
    "vmovups ymm7, [rsi + rdx - 128]",
    "vmovups [rdi], ymm4",
    "vmovups [rdi + 32], ymm0",
    "vmovups [rdi + 64], ymm1",
    "vmovups [rdi + 96], ymm2",
    "vmovups [rdi + rdx - 128], ymm7",
    "vmovups [rdi + rdx - 96], ymm6",
    "vmovups [rdi + rdx - 64], ymm3",
    "vmovups [rdi + rdx - 32], ymm5",
    "vzeroupper",
    "xor eax, eax",
    "ret",
    "32:",
    "mov r8, rdi",
    "lea r9, [rdi + rdx - 32]",
    "mov eax, 32",
    "mov ecx, edi",
    "and ecx, 31",
    "sub eax, ecx",
    "add rdi, rax",
    "add rsi, rax",
    "sub rdx, rax",
    "sub rdx, 128",
    "jbe 31f",
    ".p2align 5",
    "30:",
    "vmovups ymm0, [rsi]",
    "vmovups ymm1, [rsi + 32]",
    "vmovups ymm2, [rsi + 64]",
    "vmovups ymm3, [rsi + 96]",
    "add rsi, 128",
    "vmovaps [rdi], ymm0",
    "vmovaps [rdi + 32], ymm1",
    "vmovaps [rdi + 64], ymm2",
    "vmovaps [rdi + 96], ymm3",
    "add rdi, 128",
    "sub rdx, 128",
    "ja 30b",
    "31:",
    // 128 bytes or fewer are left before the end, which `rdx` counts up to.
    "vmovups ymm0, [rsi + rdx]",
    "vmovups ymm1, [rsi + rdx + 32]",
    "vmovups ymm2, [rsi + rdx + 64]",
    "vmovups [rdi + rdx], ymm0",
    "vmovups [rdi + rdx + 32], ymm1",
    "vmovups [rdi + rdx + 64], ymm2",
    "vmovups [r9], ymm5",
    "vmovups [r8], ymm4",
    "vzeroupper",
    "xor eax, eax",
    "ret",
    ".cfi_endproc",
    // The same, for any number of bytes.
    ".p2align 4",
    "ferroce_guard_copy_many:",
    ".cfi_startproc",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    ".cfi_endproc",
    // The same, byte by byte.
    ".p2align 4",
    "ferroce_guard_copy_upwards:",
    ".cfi_startproc",
    "xor ecx, ecx",
    "cmp rcx, rdx",
    "je 41f",
    "40:",
    "movzx eax, byte ptr [rsi + rcx]",
    "mov byte ptr [rdi + rcx], al",
    "inc rcx",
    "cmp rcx, rdx",
    "jne 40b",
    "41:",
    "xor eax, eax",
    "ret",
    ".cfi_endproc",
    // rdi: target, rsi: word.
    ".p2align 4",
    "ferroce_guard_store:",
    ".cfi_startproc",
    "mov qword ptr [rdi], rsi",
    "xor eax, eax",
    "ret",
    ".cfi_endproc",
    // rdi: target, rsi: old, rdx: new, rcx: where the previous word goes, which is ours.
    ".p2align 4",
    "ferroce_guard_compare_exchange:",
    ".cfi_startproc",
    "mov rax, rsi",
    "lock cmpxchg qword ptr [rdi], rdx",
    "mov qword ptr [rcx], rax",
    "xor eax, eax",
    "ret",
    ".cfi_endproc",
    "ferroce_guard_end:",
    // The way out.
    "ferroce_guard_faulted:",
    ".cfi_startproc",
    "mov eax, 1",
    "ret",
    ".cfi_endproc",
    ".popsection",
);

unsafe extern "C" {
    fn ferroce_guard_copy_few(target: *mut u8, source: *const u8, length: usize) -> Outcome;
    fn ferroce_guard_copy_some(target: *mut u8, source: *const u8, length: usize) -> Outcome;
    fn ferroce_guard_copy_many(target: *mut u8, source: *const u8, length: usize) -> Outcome;
}

/// Where the interrupted thread goes on. A register is as wide as an address.
pub(super) fn program_counter(context: &mut libc::ucontext_t) -> &mut libc::greg_t {
    &mut context.uc_mcontext.gregs[libc::REG_RIP as usize]
}

/// What the processor offers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Routines {
    /// 32-byte registers.
    wide: bool,
    /// A `rep movsb` that is fast.
    strings: bool,
}

impl Routines {
    pub(super) fn detect() -> Self {
        // Intel's manual, CPUID leaf 7: EBX bit 9, "enhanced REP MOVSB". Every processor with
        // 32-byte registers has the leaf.
        let wide = std::arch::is_x86_feature_detected!("avx");
        Self { wide, strings: !wide || __cpuid_count(7, 0).ebx & 1 << 9 != 0 }
    }

    /// # Safety
    /// As [`super::Guard::copy`].
    #[inline]
    pub(super) unsafe fn copy(self, target: *mut u8, source: *const u8, length: usize) -> Outcome {
        // SAFETY: the caller's promise; `copy_some` is called with registers that there are, and
        // with more than 128 bytes.
        unsafe {
            if length <= FEW {
                ferroce_guard_copy_few(target, source, length)
            } else if self.wide && (length < MANY || !self.strings) {
                ferroce_guard_copy_some(target, source, length)
            } else {
                ferroce_guard_copy_many(target, source, length)
            }
        }
    }
}
