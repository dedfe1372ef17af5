//! Configuration: what is there against what is desired, and against rules that each have an incident behind them.
