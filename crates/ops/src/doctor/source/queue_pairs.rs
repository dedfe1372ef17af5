//! What `ibv_query_qp` says of queue pairs, as programs log it: a line each, with `min_rnr_timer=0 rnr_retry=7` and,
//! if they like, `qpn=0x11`.

use super::Said;
use super::env::number;

/// A queue pair, as far as it matters here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueuePair {
    /// As the line writes it; the number of the line otherwise.
    pub name: String,
    /// The code of the wait that it asks of senders when it has no receive posted.
    pub min_rnr_timer: u8,
    /// How often it tries again when told so; 7 is for ever.
    pub rnr_retry: Option<u8>,
}

/// Lines without `min_rnr_timer` are passed over.
pub(in crate::doctor) fn read(text: &str) -> Vec<Said<QueuePair>> {
    let mut all = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words = || line.split(|c: char| c.is_whitespace() || c == ',' || c == ';');
        let value = |key: &str| {
            words().find_map(|word| word.split_once(['=', ':']).filter(|(name, _)| *name == key))
        };
        let code =
            |key: &str| value(key).and_then(|(_, text)| number(text)).filter(|&code| code < 32);
        let Some(timer) = code("min_rnr_timer") else { continue };
        let number = value("qpn").or_else(|| value("qp_num")).map(|(_, number)| number);
        let name =
            number.map_or_else(|| format!("line {}", at + 1), |number| format!("qp {number}"));
        let rnr_retry = code("rnr_retry").map(|retry| retry as u8);
        let value = QueuePair { name, min_rnr_timer: timer as u8, rnr_retry };
        all.push(Said { value, line: at + 1 });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_program_are_read() {
        let all =
            read("start\nqpn=0x11 state=RTS min_rnr_timer=0, rnr_retry=7\nmin_rnr_timer=12\n");
        let first = QueuePair { name: "qp 0x11".into(), min_rnr_timer: 0, rnr_retry: Some(7) };
        assert_eq!(all[0], Said { value: first, line: 2 });
        assert_eq!((all[1].value.min_rnr_timer, all[1].value.rnr_retry, all.len()), (12, None, 2));
    }
}
