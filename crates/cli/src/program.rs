//! Finds the program to run, and notices early that it cannot be preloaded.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{getgid, getuid};

use crate::failure::{Failure, Status};
use crate::output::tell;

/// The file that a shell would run for `name`.
pub(crate) fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let shown = name.display();
    let is_path = name.as_encoded_bytes().contains(&b'/');
    let candidates: Vec<PathBuf> = if is_path {
        vec![PathBuf::from(name)]
    } else {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).map(|folder| folder.join(name)).collect()
    };
    if let Some(found) = candidates.iter().find(|path| is_runnable(path)) {
        return Ok(found.clone());
    }
    // A folder below one of PATH is nothing that a shell would look at.
    let named = |path: &&PathBuf| path.is_file() || is_path && path.exists();
    if let Some(path) = candidates.iter().find(named) {
        let is_folder = path.is_dir();
        let path = path.display();
        if is_folder {
            let failure = Failure::new(format!("{path} is a folder, not a program"));
            return Err(failure.hint("name a program in it").status(Status::CannotRun));
        }
        let failure = Failure::new(format!("{path} is not a program that you may run"));
        return Err(failure
            .hint(format!("`ls -l {path}` shows its permissions"))
            .status(Status::CannotRun));
    }
    let failure = Failure::new(format!("there is no program called {shown}"));
    let hint = match package(name) {
        Some(package) => format!("on Debian and Ubuntu: apt install {package}"),
        None if name.as_encoded_bytes().starts_with(b"-") => {
            "that is no flag of `ferroce run`: --help lists those that it has".to_owned()
        }
        None => "check the spelling; what is not in PATH needs its whole path".to_owned(),
    };
    Err(failure.hint(hint).status(Status::NotFound))
}

/// The package that brings a well-known verbs program.
fn package(name: &OsStr) -> Option<&'static str> {
    const PREFIXES: [(&str, &str); 5] = [
        ("ibv_", "ibverbs-utils"),
        ("ib_", "perftest"),
        ("rdma_", "rdmacm-utils"),
        ("ucx_", "ucx-utils"),
        ("fi_", "libfabric-bin"),
    ];
    const NAMES: [(&str, &str); 7] = [
        ("cmtime", "rdmacm-utils"),
        ("mckey", "rdmacm-utils"),
        ("rping", "rdmacm-utils"),
        ("ucmatose", "rdmacm-utils"),
        ("udaddy", "rdmacm-utils"),
        ("mpirun", "openmpi-bin"),
        ("qperf", "qperf"),
    ];
    let name = name.to_str()?;
    let by_prefix = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix));
    let found = NAMES.iter().find(|(known, _)| *known == name).or(by_prefix)?;
    Some(found.1)
}

fn is_runnable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Says so where the loader would silently ignore `LD_PRELOAD`.
pub(crate) fn check_preload(path: &Path) -> Result<(), Failure> {
    let Ok(metadata) = path.metadata() else { return Ok(()) };
    if gains_privileges(&metadata) {
        let path = path.display();
        let message = format!("{path} is setuid or setgid, so the loader keeps our library out");
        return Err(Failure::new(message)
            .hint("let it start ferroce, as in `sudo ferroce run -- PROGRAM`")
            .status(Status::CannotRun));
    }
    // What the kernel says of it comes first.
    if is_foreign(path) {
        return Ok(());
    }
    let shown = path.display();
    match loader(path) {
        // Not an error: it may start other programs, which inherit the environment.
        Some(None) => tell(&format!(
            "warning: {shown} is statically linked: only programs that it starts see Ferroce"
        )),
        Some(Some(loader)) if loader.contains("ld-musl") => {
            let message =
                format!("{shown} is loaded by musl's {loader}, and our libraries need glibc");
            return Err(Failure::new(message)
                .hint("build it on a distribution with glibc, or run one in a container")
                .status(Status::CannotRun));
        }
        _ => {}
    }
    Ok(())
}

/// Whether the kernel runs the file with more rights than we have.
fn gains_privileges(metadata: &Metadata) -> bool {
    const SETUID: u32 = 0o4000;
    // Without the execute bit of the group, this bit means mandatory locking.
    const SETGID: u32 = 0o2010;
    let mode = metadata.permissions().mode();
    let user_changes = mode & SETUID != 0 && metadata.uid() != getuid().as_raw();
    let group_changes = mode & SETGID == SETGID && metadata.gid() != getgid().as_raw();
    user_changes || group_changes
}

/// Why the kernel has not run the file. Of one whose interpreter is missing it says what it would say if the file were,
/// and of one whose interpreter nobody may run what it would say if that were true of the file.
pub(crate) fn cannot_run(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    let head = head(path).unwrap_or_default();
    let interpreter = interpreter_of(&head);
    let failure = match (error.kind(), &interpreter, foreign_machine_of(&head)) {
        (ErrorKind::NotFound, Some(name), _) if !Path::new(name).exists() => {
            let name = name.escape_debug();
            Failure::new(format!("cannot run {shown}: its interpreter `{name}` does not exist"))
                .hint("install it; of a script the first line names it, as in `#!/bin/sh`")
        }
        (ErrorKind::PermissionDenied, Some(name), _) if !is_runnable(Path::new(name)) => {
            let failure = Failure::new(format!(
                "cannot run {shown}: its interpreter `{name}` is not a program that you may run"
            ));
            failure.hint(format!("`ls -l {name}` shows its permissions"))
        }
        (_, _, Some(machine)) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            let ours = env::consts::ARCH;
            let message =
                format!("cannot run {shown}: it is for {machine}, and this machine is {ours}");
            Failure::new(message).hint(format!("take one that was built for {ours}"))
        }
        _ => Failure::new(format!("cannot run {shown}: {error}")),
    };
    failure.status(Status::CannotRun)
}

/// Whether the file is an executable for another processor, which the kernel may run nevertheless (`binfmt_misc`).
pub(crate) fn is_foreign(path: &Path) -> bool {
    head(path).as_deref().and_then(foreign_machine_of).is_some()
}

/// The processor that an ELF file is for, if that is not ours.
fn foreign_machine_of(head: &[u8]) -> Option<String> {
    machine_of(head).filter(|machine| machine != env::consts::ARCH)
}

/// The processor that an ELF file is for, by the name that [`env::consts::ARCH`] has for it.
fn machine_of(head: &[u8]) -> Option<String> {
    const NAMES: [(u16, &str); 13] = [
        (2, "sparc"),
        (3, "x86"),
        (8, "mips"),
        (20, "powerpc"),
        (21, "powerpc64"),
        (22, "s390x"),
        (40, "arm"),
        (42, "sh"),
        (43, "sparc64"),
        (62, "x86_64"),
        (183, "aarch64"),
        (243, "riscv64"),
        (258, "loongarch64"),
    ];
    let number: [u8; 2] = *head.get(0x12..)?.first_chunk()?;
    let number = match head.strip_prefix(b"\x7fELF")?.get(1)? {
        1 => u16::from_le_bytes(number),
        2 => u16::from_be_bytes(number),
        _ => return None,
    };
    let known = NAMES.iter().find(|(known, _)| *known == number);
    Some(known.map_or_else(|| format!("processor {number} of ELF"), |(_, name)| (*name).to_owned()))
}

/// The first bytes of a file.
fn head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(4096).read_to_end(&mut head).ok()?;
    Some(head)
}

/// Who the kernel starts to run the file: by the first line of a script, or the loader of an executable.
fn interpreter_of(head: &[u8]) -> Option<String> {
    let Some(line) = head.strip_prefix(b"#!") else { return loader_of(head)? };
    let line = line.split(|byte| matches!(byte, b'\n' | 0)).next()?;
    let name = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The loader that a 64-bit little-endian ELF executable names; `Some(None)` if it is statically linked.
/// Anything else is left to the kernel to judge.
fn loader(path: &Path) -> Option<Option<String>> {
    let head = head(path)?;
    loader_of(&head).or_else(|| loads_itself(&File::open(path).ok()?, &head)?.then_some(None))
}

/// Whether a file that names no loader is an executable, statically linked for whatever address the kernel chooses.
/// Libraries and loaders name none either, and do not say that they are executables.
fn loads_itself(file: &File, head: &[u8]) -> Option<bool> {
    const DT_FLAGS_1: u64 = 0x6fff_fffb;
    const DF_1_PIE: u64 = 0x0800_0000;
    const LARGEST: usize = 64 << 10;
    let segments = Segment::all(head)?;
    let of_kind = |kind| segments.iter().find(|segment| segment.kind == kind);
    let dynamic = of_kind(Segment::DYNAMIC).filter(|_| of_kind(Segment::INTERPRETER).is_none())?;
    let mut table = vec![0; dynamic.bytes.min(LARGEST)];
    file.read_exact_at(&mut table, dynamic.offset as u64).ok()?;
    let words: Vec<u64> =
        table.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let is_executable = |[tag, value]: &[u64; 2]| *tag == DT_FLAGS_1 && value & DF_1_PIE != 0;
    Some(words.as_chunks().0.iter().any(is_executable))
}

/// The runtime of AddressSanitizer, if the program is linked to it: the loader has to load it before all others.
pub(crate) fn sanitizer(path: &Path) -> Option<OsString> {
    const LARGEST: u64 = 256 << 20;
    path.metadata().ok().filter(|it| it.len() <= LARGEST)?;
    let bytes = fs::read(path).ok().filter(|bytes| bytes.starts_with(b"\x7fELF"))?;
    let name = sanitizer_of(&bytes)?;
    Some(OsString::from(String::from_utf8_lossy(name).into_owned()))
}

/// The same, in a program's bytes: a name of its own in the table of names.
fn sanitizer_of(bytes: &[u8]) -> Option<&[u8]> {
    /// As gcc calls it, `libasan.so.8`, and clang: `libclang_rt.asan.so`, or with the processor, as in
    /// `libclang_rt.asan-x86_64.so`.
    const NAMES: [&[u8]; 3] = [b"\0libasan.so.", b"\0libclang_rt.asan.so", b"\0libclang_rt.asan-"];
    let begins_name = |at: &usize| NAMES.iter().any(|name| bytes[*at..].starts_with(name));
    let at = (0..bytes.len()).filter(|at| bytes[*at] == 0).find(begins_name)? + 1;
    let length = bytes[at..].iter().take(64).position(|byte| *byte == 0)?;
    Some(&bytes[at..at + length])
}

/// As [`loader`], of the first bytes of the file.
fn loader_of(head: &[u8]) -> Option<Option<String>> {
    let segments = Segment::all(head)?;
    let of_kind = |kind| segments.iter().find(|segment| segment.kind == kind);
    let Some(Segment { offset, bytes, .. }) = of_kind(Segment::INTERPRETER) else {
        return of_kind(Segment::DYNAMIC).is_none().then_some(None);
    };
    let name = head.get(*offset..offset.checked_add(*bytes)?)?;
    Some(Some(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()))
}

/// A part of a 64-bit little-endian ELF file.
struct Segment {
    kind: u32,
    offset: usize,
    bytes: usize,
}

impl Segment {
    const DYNAMIC: u32 = 2;
    const INTERPRETER: u32 = 3;

    /// All of them that the first bytes of the file name.
    fn all(head: &[u8]) -> Option<Vec<Self>> {
        if !head.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let half = |at: usize| Some(u16::from_le_bytes(*head.get(at..)?.first_chunk()?));
        let word = |at: usize| Some(u32::from_le_bytes(*head.get(at..)?.first_chunk()?));
        let (table, entry_bytes, entries) = (word(0x20)?, half(0x36)?, half(0x38)?);
        let segment = |at: usize| {
            let (offset, bytes) = (word(at + 8)? as usize, word(at + 32)? as usize);
            Some(Self { kind: word(at)?, offset, bytes })
        };
        let all = (0..usize::from(entries))
            .filter_map(|entry| (table as usize).checked_add(entry * usize::from(entry_bytes)))
            .filter_map(segment);
        Some(all.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The head of an executable with one program header, of `kind`, which names `loader`.
    fn executable(kind: u32, loader: &str) -> Vec<u8> {
        let mut head = vec![0; 0x40 + 56];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[0x20] = 0x40;
        head[0x36] = 56;
        head[0x38] = 1;
        head[0x40..0x44].copy_from_slice(&kind.to_le_bytes());
        head[0x48] = 0x40 + 56;
        head[0x60] = loader.len() as u8 + 1;
        head.extend(loader.as_bytes());
        head.push(0);
        head
    }

    #[test]
    fn a_program_names_the_runtime_of_its_sanitizer() {
        assert_eq!(sanitizer_of(b"..\0libc.so.6\0libasan.so.8\0.."), Some(&b"libasan.so.8"[..]));
        for clang in ["libclang_rt.asan-x86_64.so", "libclang_rt.asan.so"] {
            let names = format!("..\0{clang}\0libc.so.6\0..");
            assert_eq!(sanitizer_of(names.as_bytes()), Some(clang.as_bytes()));
        }
        assert_eq!(sanitizer_of(b"..\0libc.so.6\0.."), None);
        assert_eq!(sanitizer_of(b"..\0libasan.so.8"), None, "it is cut");
    }

    #[test]
    fn a_script_names_its_interpreter_as_the_kernel_reads_it() {
        let of = |head: &str| interpreter_of(head.as_bytes());
        assert_eq!(of("#!/bin/sh\necho"), Some("/bin/sh".to_owned()));
        assert_eq!(of("#! \t/usr/bin/env -S a b"), Some("/usr/bin/env".to_owned()));
        // The kernel looks for this, of a script with the line ends of another system.
        assert_eq!(of("#!/bin/sh\r\n"), Some("/bin/sh\r".to_owned()));
        assert_eq!([of("#!\n/bin/sh"), of("#!"), of("/bin/sh")], [None, None, None]);
        assert_eq!(interpreter_of(&executable(3, "/lib/ld")), Some("/lib/ld".to_owned()));
        assert_eq!(interpreter_of(&executable(1, "")), None);
    }

    #[test]
    fn an_executable_says_whom_it_is_for() {
        let of = |order: u8, machine: [u8; 2]| {
            let mut head = executable(1, "");
            (head[5], head[0x12], head[0x13]) = (order, machine[0], machine[1]);
            machine_of(&head)
        };
        assert_eq!(of(1, [183, 0]).as_deref(), Some("aarch64"));
        assert_eq!(of(2, [0, 22]).as_deref(), Some("s390x"));
        assert_eq!(of(1, [2, 1]).as_deref(), Some("loongarch64"));
        assert_eq!(of(1, [50, 0]).as_deref(), Some("processor 50 of ELF"));
        assert_eq!([of(3, [62, 0]), machine_of(b"#!/bin/sh\necho what is this")], [None, None]);
        assert!(!is_foreign(&env::current_exe().unwrap()));
    }

    #[test]
    fn an_executable_says_who_loads_it() {
        let musl = "/lib/ld-musl-x86_64.so.1";
        assert_eq!(loader_of(&executable(3, musl)), Some(Some(musl.to_owned())));
        assert_eq!(loader_of(&executable(1, "")), Some(None), "nobody: it is static");
        assert_eq!(loader_of(&executable(2, "")), None, "what its table says counts");
        assert_eq!(loader_of(b"#!/bin/sh\n"), None);
        let whole = executable(3, musl);
        for end in 0..whole.len() {
            assert_ne!(loader_of(&whole[..end]), Some(Some(musl.to_owned())), "{end} bytes");
        }
    }

    #[test]
    fn what_no_loader_loads_is_static_where_it_says_that_it_is_an_executable() {
        let of = |entries: &[[u64; 2]]| {
            let mut bytes = executable(2, "");
            bytes[0x60] = 16 * entries.len() as u8;
            bytes.truncate(0x40 + 56);
            bytes.extend(entries.iter().flatten().flat_map(|word| word.to_le_bytes()));
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&bytes).unwrap();
            loader(file.path())
        };
        assert_eq!(of(&[[5, 0x400], [0x6fff_fffb, 0x0800_0001], [0, 0]]), Some(None));
        assert_eq!(of(&[[5, 0x400], [0x6fff_fffb, 1], [0, 0]]), None, "a library");
        assert_eq!(of(&[[0x0800_0000, 0x0800_0000], [0, 0]]), None, "a loader");
        assert_eq!(loader(Path::new("/lib64/ld-linux-x86-64.so.2")), None);
    }
}
