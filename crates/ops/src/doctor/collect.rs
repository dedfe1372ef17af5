//! The commands that fill a folder.

/// A shell script: run on a switch or a host it writes the folder of that device, below the folder that it is given.
pub fn collect() -> &'static str {
    include_str!("collect.sh")
}
