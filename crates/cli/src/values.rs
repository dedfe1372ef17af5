//! Values of flags that several commands have.

pub(crate) fn seconds(text: &str) -> Result<f64, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds));
    seconds.ok_or("give seconds, from 0.01 to a day")
}
