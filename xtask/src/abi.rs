//! `cargo xtask abi`: holds the library to the ABI that programs were linked against.
//!
//! | what | against |
//! |---|---|
//! | exported symbols and their versions | `golden/symbols*.txt`: every name of release 65, in each of its nodes |
//! | sizes and offsets of structures | the installed `infiniband/verbs.h` and `rdma/rdma_cma.h`, by the C compiler |
//! | loading, every symbol bound at once | the verbs programs that are installed |
//! | what references are bound to that name `IBVERBS_1.0`, `IBVERBS_1.1` or no node, and how the first fail | `abi/oldest.c` |
//! | versions of the C library that are needed | [`C_LIBRARY`], of what is built on Debian 12 |

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::dist;
use crate::workspace::{self, output, root};

/// The committed lists of exports, of the verbs library and of that of connection management, and
/// how their version nodes begin.
const SYMBOLS: [(&str, &str); 2] =
    [("golden/symbols.txt", "IBVERBS_"), ("golden/symbols-rdmacm.txt", "RDMACM_")];
/// The tables of sizes and offsets, which the crate's own tests use too, and their headers.
const LAYOUTS: [(&str, &str); 2] = [
    ("crates/abi/src/tests.rs", "infiniband/verbs.h"),
    ("crates/ibverbs/src/rdmacm/abi.rs", "rdma/rdma_cma.h"),
];

/// No newer C library is needed, so what is built on Debian 12 runs where there is glibc 2.34 (August 2021): Ubuntu 22.04
/// and RHEL 9 have it.
const C_LIBRARY: [u32; 2] = [2, 34];
/// That of Debian 12. Built against a newer one they may need that.
const OLDEST_BUILT_AGAINST: [u32; 2] = [2, 36];

/// Programs that must load: those of rdma-core, perftest and qperf.
const PROGRAMS: &[&str] = &[
    "ibv_devices",
    "ibv_devinfo",
    "ibv_asyncwatch",
    "ibv_rc_pingpong",
    "ibv_uc_pingpong",
    "ibv_ud_pingpong",
    "ibv_srq_pingpong",
    "ibv_xsrq_pingpong",
    "ib_send_bw",
    "ib_send_lat",
    "ib_write_bw",
    "ib_write_lat",
    "ib_read_bw",
    "ib_read_lat",
    "ib_atomic_bw",
    "ib_atomic_lat",
    "qperf",
    "rping",
    "ucmatose",
    "udaddy",
    "mckey",
    "rdma_client",
    "rdma_server",
    "cmtime",
];

/// Fails when the built library differs from what programs expect.
pub(crate) fn run() -> Result<()> {
    dist::build_library()?;
    let libraries = [dist::library(), dist::cm_library()];
    for (library, (list, node)) in libraries.iter().zip(SYMBOLS) {
        check_symbols(library, list, node)?;
    }
    for (table, header) in LAYOUTS {
        check_layouts(table, header)?;
    }
    check_loading(&libraries)?;
    check_oldest(&libraries[0])?;
    check_c_library(&libraries[0])
}

/// That what lies beside the library, and the command, need no newer C library.
fn check_c_library(library: &Path) -> Result<()> {
    let own = output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let own = own.trim().strip_prefix("glibc ").and_then(version).context("no glibc is here")?;
    let folder = library.parent().context("a library lies in a folder")?;
    let mut files = Vec::new();
    let command = folder.join("../../bin/ferroce");
    match command.exists() {
        true => files.push(command),
        false => println!("C library: bin/ferroce is not looked at, `cargo xtask dist` builds it"),
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // One that was not finished may lie there.
        files.extend((path.extension() != Some("new".as_ref())).then_some(path));
    }
    let mut newest = [0, 0];
    for file in &files {
        let headers = output(Command::new("objdump").arg("-p").arg(file))?;
        let needed = needed_of_c_library(&headers);
        if own <= OLDEST_BUILT_AGAINST && needed > C_LIBRARY {
            let [[major, minor], [known, least]] = [needed, C_LIBRARY];
            bail!("{} needs glibc {major}.{minor}, not {known}.{least}", file.display());
        }
        newest = newest.max(needed);
    }
    let [major, minor] = newest;
    let judged =
        if own <= OLDEST_BUILT_AGAINST { "" } else { ", which is not judged on this machine" };
    println!("C library: glibc {major}.{minor} or newer is needed{judged}");
    Ok(())
}

/// The newest version of the C library in the output of `objdump -p`. What has no number, as GLIBC_PRIVATE and
/// GLIBC_ABI_DT_RELR, is of one release, or of new ones: newer than any.
fn needed_of_c_library(headers: &str) -> [u32; 2] {
    let names = headers.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_"));
    names.map(|name| version(name).unwrap_or([u32::MAX; 2])).max().unwrap_or_default()
}

/// Of `2.34` or `2.3.4`, the first two.
fn version(text: &str) -> Option<[u32; 2]> {
    let mut parts = text.split('.').map(str::parse);
    Some([parts.next()?.ok()?, parts.next()?.ok()?])
}

fn check_symbols(library: &Path, list: &str, node: &str) -> Result<()> {
    let table = output(Command::new("objdump").arg("-T").arg(library))?;
    let ours = exports(&table, node);
    let path = root().join(list);
    let golden =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let golden: BTreeSet<String> = golden.lines().map(str::to_owned).collect();
    let missing: Vec<&String> = golden.difference(&ours).collect();
    let added: Vec<&String> = ours.difference(&golden).collect();
    if !missing.is_empty() || !added.is_empty() {
        let names = |names: Vec<&String>| {
            names.into_iter().map(|name| format!("\n  {name}")).collect::<String>()
        };
        bail!(
            "the exports differ from {list}\nmissing:{}\nnot in the list:{}",
            names(missing),
            names(added)
        );
    }
    println!("symbols: {} as in {list}", ours.len());
    Ok(())
}

/// The defined symbols with their versions in the output of `objdump -T`: as `name@@node`, or as
/// `name@node` where another node is the one that a linker takes.
fn exports(table: &str, nodes: &str) -> BTreeSet<String> {
    let defined = table.lines().filter(|line| !line.contains("*UND*") && !line.contains("*ABS*"));
    defined
        .filter_map(|line| {
            let mut words = line.split_whitespace().rev();
            let (name, node) = (words.next()?, words.next()?);
            let older = node.strip_prefix('(').and_then(|node| node.strip_suffix(')'));
            let is_ours = older.unwrap_or(node).starts_with(nodes);
            is_ours.then(|| match older {
                Some(node) => format!("{name}@{node}"),
                None => format!("{name}@@{node}"),
            })
        })
        .collect()
}

/// Compiles a table of layouts, as assertions, against the installed header.
fn check_layouts(table: &str, header: &str) -> Result<()> {
    if !Path::new("/usr/include").join(header).exists() {
        println!("layouts: not compared, {header} is not installed (librdmacm-dev has both)");
        return Ok(());
    }
    let path = root().join(table);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let (source, count) = assertions(&text, header);
    if count == 0 {
        bail!("{table} holds no layouts");
    }
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-std=c11", "-fsyntax-only", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot start the C compiler")?;
    let mut stdin = compiler.stdin.take().context("the C compiler takes no input")?;
    stdin.write_all(source.as_bytes())?;
    drop(stdin);
    if !compiler.wait()?.success() {
        bail!("the structures of {table} differ from the installed header");
    }
    println!("layouts: {count} sizes and offsets as in {header}");
    Ok(())
}

/// C assertions of a table of `structure[size] { field @ offset, .. }`, and how many they are.
fn assertions(table: &str, header: &str) -> (String, usize) {
    let mut source = format!("#include <stddef.h>\n#include <{header}>\n");
    let mut count = 0;
    let body = table.split_once("layouts! {\n").map_or("", |(_, rest)| rest);
    // Release 44's own: ours has operations of later releases at its front.
    let body = body.split("// Release 44").next().unwrap_or(body);
    for entry in body.split('}') {
        let Some((head, fields)) = entry.split_once('{') else { break };
        let Some((name, size)) = head.trim().trim_end_matches(']').split_once('[') else { break };
        source.push_str(&format!("_Static_assert(sizeof(struct {name}) == {size}, \"{name}\");\n"));
        count += 1;
        for (field, offset) in fields.split(',').filter_map(|field| field.split_once('@')) {
            let (field, offset) = (field.trim(), offset.trim());
            source.push_str(&format!(
                "_Static_assert(offsetof(struct {name}, {field}) == {offset}, \"{name}.{field}\");\n"
            ));
            count += 1;
        }
    }
    (source, count)
}

/// Lets the loader bind every symbol of each program, without running it.
fn check_loading(libraries: &[PathBuf; 2]) -> Result<()> {
    let folder = libraries[0].parent().unwrap_or(&libraries[0]);
    let mut absent = Vec::new();
    let mut loaded = 0;
    for program in PROGRAMS {
        let Some(path) = workspace::installed(program) else {
            absent.push(*program);
            continue;
        };
        let trace = Command::new(&path)
            .env("LD_LIBRARY_PATH", folder)
            .envs([("LD_TRACE_LOADED_OBJECTS", "1"), ("LD_WARN", "1"), ("LD_BIND_NOW", "1")])
            .output()
            .with_context(|| format!("cannot load {program}"))?;
        let text =
            [trace.stdout, trace.stderr].map(|part| String::from_utf8_lossy(&part).into_owned());
        if let Some(complaint) = complaint(&text.concat(), libraries) {
            bail!("{program} does not load with our library: {complaint}");
        }
        loaded += 1;
    }
    println!("loading: {loaded} programs, every symbol bound");
    if !absent.is_empty() {
        println!("loading: not installed: {}", absent.join(", "));
    }
    Ok(())
}

/// The error in the loader's trace, if there is one.
fn complaint(trace: &str, libraries: &[PathBuf]) -> Option<String> {
    const SIGNS: [&str; 4] =
        ["undefined symbol", "no version information", "not found", "symbol lookup error"];
    let bad = trace.lines().find(|line| SIGNS.iter().any(|sign| line.contains(sign)));
    let foreign = libraries.iter().find(|&library| {
        let name = library.file_name().unwrap_or_default().to_string_lossy();
        let is_needed = trace.contains(&*name) || *library == libraries[0];
        is_needed && !trace.contains(&*library.to_string_lossy())
    });
    match (bad, foreign) {
        (Some(line), _) => Some(line.trim().to_owned()),
        (None, Some(library)) => Some(format!("it is not bound to {}", library.display())),
        (None, None) => None,
    }
}

/// Runs a program that is linked against the library as one of before 2007 was, and as one of today is.
fn check_oldest(library: &Path) -> Result<()> {
    let folder = library.parent().context("a library lies in a folder")?;
    let scratch = TempDir::new()?;
    let [plugin, program] = ["plugin.so", "program"].map(|name| scratch.path().join(name));
    let compiled_to = |target: &Path| {
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(target);
        compiler.arg(root().join("xtask/src/abi/oldest.c"));
        compiler
    };
    workspace::run(compiled_to(&plugin).args(["-DPLUGIN", "-shared", "-fPIC"]))?;
    workspace::run(compiled_to(&program).arg("-L").arg(folder).args(["-libverbs", "-ldl"]))?;
    let mut command = Command::new(&program);
    command.arg(&plugin).env("LD_LIBRARY_PATH", folder).env("FERROCE_LOG", "warn");
    let ran = command.output().context("cannot run a program that was linked to our library")?;
    let [stdout, stderr] = [&ran.stdout, &ran.stderr].map(|text| String::from_utf8_lossy(text));
    if !ran.status.success() {
        bail!("a program of before 2007 gets something else: {}: {stdout}{stderr}", ran.status);
    }
    let told = stderr.lines().filter(|line| line.contains("WARN")).count();
    if told != 1 {
        bail!("a program of before 2007 is told {told} times that it is one:\n{stderr}");
    }
    println!("libibverbs 1.0: {} names, each refuses", stdout.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_c_library_that_is_needed_is_found() {
        let headers = "Version References:
  required from ld-linux-x86-64.so.2:
    0x0d696913 0x00 40 GLIBC_2.3
  required from libc.so.6:
    0x09691974 0x00 47 GLIBC_2.3.4
    0x069691b4 0x00 44 GLIBC_2.34
    0x06969188 0x00 49 GLIBC_2.28
  required from libgcc_s.so.1:
    0x09276060 0x00 46 GCC_4.2.0
";
        assert_eq!(needed_of_c_library(headers), [2, 34]);
        assert_eq!(needed_of_c_library("    0x09276060 0x00 46 GCC_4.2.0"), [0, 0]);
        assert!(needed_of_c_library("    0x0963cf85 0x00 05 GLIBC_PRIVATE") > C_LIBRARY);
        assert!(needed_of_c_library("    0x0fd0e42a 0x00 03 GLIBC_ABI_DT_RELR") > C_LIBRARY);
    }

    #[test]
    fn exports_are_read_from_the_dynamic_symbol_table() {
        let table = "\
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.2.5) free
0000000000000000 g    DO *ABS*\t0000000000000000  IBVERBS_1.0 IBVERBS_1.0
0000000000011c40 g    DF .text\t0000000000000123  IBVERBS_1.1 ibv_open_device
0000000000011d40 g    DF .text\t0000000000000123 (IBVERBS_1.0) ibv_open_device
";
        assert_eq!(
            exports(table, "IBVERBS_").into_iter().collect::<Vec<_>>(),
            ["ibv_open_device@@IBVERBS_1.1", "ibv_open_device@IBVERBS_1.0"]
        );
    }

    #[test]
    fn layouts_become_assertions() {
        let table =
            "layouts! {\n ibv_pd[16] { context @ 0 }\n ibv_td[8] {}\n // Release 44 x[1] {}";
        let (source, count) = assertions(table, "infiniband/verbs.h");
        assert_eq!(count, 3);
        assert!(source.contains("_Static_assert(offsetof(struct ibv_pd, context) == 0"));
        assert!(source.contains("_Static_assert(sizeof(struct ibv_td) == 8"));
        assert!(!source.contains("struct x"));
    }

    #[test]
    fn a_loader_that_finds_another_library_is_a_complaint() {
        let ours = ["/dist/libibverbs.so.1", "/dist/librdmacm.so.1"].map(PathBuf::from);
        let good = "\tlibibverbs.so.1 => /dist/libibverbs.so.1 (0x1)\n";
        assert_eq!(complaint(good, &ours), None);
        let foreign = "\tlibrdmacm.so.1 => /usr/lib/librdmacm.so.1 (0x1)\n";
        assert!(complaint(&format!("{good}{foreign}"), &ours).is_some());
        assert!(complaint(&format!("{good}undefined symbol: ibv_x\t(a)\n"), &ours).is_some());
    }
}
