// dlopen and dlmopen ask paths.c which file is meant, and then jump to the C library. The C library finds out by the
// return address who calls, and with that where to look (RUNPATH) and in which namespace. So no call of ours may
// stand between: the return address is the caller's.

#if defined(__x86_64__)

#define FUNCTION(name) \
    .globl name; \
    .type name, @function; \
    .balign 16; \
    name: .cfi_startproc; \
    endbr64
#define END(name) \
    .cfi_endproc; \
    .size name, . - name

    .text
    // path, mode
    FUNCTION(dlopen)
    push %rsi
    .cfi_adjust_cfa_offset 8
    call ferroce_dlopen
    pop %rsi
    .cfi_adjust_cfa_offset -8
    mov %rax, %rdi
    jmp *%rdx
    END(dlopen)

    // namespace, path, mode
    FUNCTION(dlmopen)
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rdx
    .cfi_adjust_cfa_offset 8
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    mov %rsi, %rdi
    call ferroce_dlmopen
    mov %rax, %rsi
    mov %rdx, %rax
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    pop %rdx
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    END(dlmopen)

#elif defined(__aarch64__)

// Jumps by x16 may land on `bti c`.
#define FUNCTION(name) \
    .globl name; \
    .type name, %function; \
    .balign 16; \
    name: .cfi_startproc; \
    hint 34; \
    stp x29, x30, [sp, -32]!; \
    .cfi_def_cfa_offset 32; \
    .cfi_offset x29, -32; \
    .cfi_offset x30, -24; \
    mov x29, sp
#define END(name) \
    ldp x29, x30, [sp], 32; \
    .cfi_restore x29; \
    .cfi_restore x30; \
    .cfi_def_cfa_offset 0; \
    br x16; \
    .cfi_endproc; \
    .size name, . - name

    .text
    // path, mode
    FUNCTION(dlopen)
    str x1, [sp, 16]
    bl ferroce_dlopen
    mov x16, x1
    ldr x1, [sp, 16]
    END(dlopen)

    // namespace, path, mode
    FUNCTION(dlmopen)
    stp x0, x2, [sp, 16]
    mov x0, x1
    bl ferroce_dlmopen
    mov x16, x1
    mov x1, x0
    ldp x0, x2, [sp, 16]
    END(dlmopen)

#else
#error "libferroce-paths.so is for x86-64 and arm64"
#endif

    .section .note.GNU-stack,"",%progbits
