//! Static rates: codes, multiples of 2.5 Gb/s, and Mb/s.

use core::ffi::c_int;

/// Code of `enum ibv_rate`, multiple of 2.5 Gb/s, Mb/s (IBTA vol 1, 9.11.1, table 63).
const RATES: [(u32, c_int, c_int); 23] = [
    (2, 1, 2_500),
    (5, 2, 5_000),
    (3, 4, 10_000),
    (6, 8, 20_000),
    (4, 12, 30_000),
    (7, 16, 40_000),
    (8, 24, 60_000),
    (9, 32, 80_000),
    (10, 48, 120_000),
    (11, 5, 14_062),
    (12, 20, 56_250),
    (13, 40, 112_500),
    (14, 60, 168_750),
    (15, 10, 25_781),
    (16, 40, 103_125),
    (17, 80, 206_250),
    (18, 120, 309_375),
    (19, 11, 28_125),
    (20, 20, 53_125),
    (21, 160, 425_000),
    (22, 240, 637_500),
    (23, 320, 850_000),
    (24, 480, 1_275_000),
];

/// The code that means "the port's rate".
const RATE_MAX: u32 = 0;

/// The multiple of 2.5 Gb/s, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mult(rate: u32) -> c_int {
    RATES.iter().find(|it| it.0 == rate).map_or(-1, |it| it.1)
}

/// The code of a multiple of 2.5 Gb/s.
#[unsafe(no_mangle)]
pub extern "C" fn mult_to_ibv_rate(mult: c_int) -> u32 {
    RATES.iter().find(|it| it.1 == mult).map_or(RATE_MAX, |it| it.0)
}

/// The rate in Mb/s, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mbps(rate: u32) -> c_int {
    RATES.iter().find(|it| it.0 == rate).map_or(-1, |it| it.2)
}

/// The code of a rate in Mb/s.
#[unsafe(no_mangle)]
pub extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> u32 {
    RATES.iter().find(|it| it.2 == mbps).map_or(RATE_MAX, |it| it.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rate_in_mbps_has_its_code() {
        for (code, _, mbps) in RATES {
            assert_eq!(mbps_to_ibv_rate(mbps), code);
            assert_eq!(ibv_rate_to_mbps(code), mbps);
        }
        assert_eq!((ibv_rate_to_mult(1), mbps_to_ibv_rate(1)), (-1, RATE_MAX));
        assert_eq!(mult_to_ibv_rate(16), 7);
    }
}
