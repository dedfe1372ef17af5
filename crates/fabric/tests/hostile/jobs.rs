//! Scenarios whose hosts do something together.

/// As [`super::scenarios::CASES`], where the incast stands.
pub(super) const CASES: &[(&str, &str, &str)] = &[
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\nbytes = 1",
        "line 19: workload.operation: kind \"collective\" needs it\nhint: add operation to this table",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nbytes = 0",
        "line 22: workload.bytes: 0 is not from 1 to 1125899906842624\nhint: a byte at least, and a pebibyte at most",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"reduce-scater\"\nbytes = 1",
        "line 21: workload.operation: there is no \"reduce-scater\"\nhint: did you mean \"reduce-scatter\"?",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-gather\"\nalgorithm = \"tree\"\nbytes = 1",
        "line 22: workload.algorithm: this operation is not done so\nhint: it is done by ring and halving-doubling",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nalgorithm = \"halving-doubling\"\nbytes = 1",
        "line 22: workload.algorithm: 3 ranks cannot be halved to one\nhint: take 2, 4, 8, ... hosts, or another algorithm",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nalgorithm = \"hierarchical\"\nbytes = 1",
        "line 22: workload.algorithm: a hierarchy is of groups\nhint: add group_hosts, as many as hosts have a fast network among them",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nalgorithm = \"hierarchical\"\ngroup_hosts = 2\nbytes = 1",
        "line 23: workload.group_hosts: 3 ranks are not several groups of as many\nhint: give a divisor of the number of hosts, and less than all",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\ngroup_hosts = 2\nbytes = 1",
        "line 22: workload.group_hosts: only a hierarchy has groups\nhint: remove it, or write algorithm = \"hierarchical\"",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nbytes = 1_000_000_000_000\nchunk_bytes = 1",
        "line 22: workload.bytes: these would be 8000000000016 operations, and there is room for 16777216\nhint: take fewer hosts, or longer chunks",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nhosts = [\"h0\", \"h9\"]\nbytes = 1",
        "line 22: workload.hosts: there is no host \"h9\"\nhint: hosts are h0 to h2",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nhosts = [\"h0\", \"h1\", \"h0\"]\nbytes = 1",
        "line 22: workload.hosts: \"h0\" is there twice\nhint: a host has one rank",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nhosts = [\"h0\"]\nbytes = 1",
        "line 22: workload.hosts: 1 of them do nothing together\nhint: name two or more, or leave it out for all",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nrepeat = 4_000_000_000\nbytes = 1",
        "line 22: workload.repeat: 12000000000 parts of all ranks are more than 16777216\nhint: repeat it less often",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nverb = \"write\"\nbytes = 1",
        "line 22: workload.verb: there is no \"write\"\nhint: did you mean \"write-immediate\"?",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nchannels = 257\nbytes = 1",
        "line 22: workload.channels: 257 is not from 1 to 256\nhint: 1 for a queue pair",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nmessage_bytes = 257\nbytes = 1",
        "line 22: workload.message_bytes: kind \"collective\" does not have it\nhint: its keys are operation, algorithm, bytes, chunk_bytes, channels, group_hosts, hosts, repeat, compute_us, start_us, dscp, verb",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"goal\"\nrepeat = 2",
        "line 19: workload.file: kind \"goal\" needs it\nhint: add file to this table",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"goal\"\nfile = \"nowhere.goal\"",
        "line 21: workload.file: cannot read \"nowhere.goal\": it is not there\nhint: the path is relative to the scenario",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"goal\"\nfile = \"tests/hostile/goal/circle.goal\"",
        "line 21: workload.file: tests/hostile/goal/circle.goal, line 5: this operation waits for itself, by way of others\nhint: remove a requires of the circle, or send before what is received in return",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"goal\"\nfile = \"tests/hostile/goal/unmatched.goal\"",
        "line 21: workload.file: tests/hostile/goal/unmatched.goal, line 3: no receive takes this send to 1 with tag 3\nhint: add `recv 8b from 0 tag 3` to rank 1",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"goal\"\nfile = \"tests/hostile/goal/unreceived.goal\"",
        "line 21: workload.file: tests/hostile/goal/unreceived.goal, line 7: nothing is sent to this receive from 0 with tag 0\nhint: add `send 8b to 1 tag 0` to rank 0",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"goal\"\nfile = \"tests/hostile/goal/four.goal\"",
        "line 21: workload.file: tests/hostile/goal/four.goal has 4 ranks, for 3 hosts\nhint: a rank has a host of its own",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"goal\"\nfile = \"tests/hostile/goal/four.goal\"\nhosts = [\"h0\", \"h1\"]",
        "line 22: workload.hosts: tests/hostile/goal/four.goal has 4 ranks, for 2 hosts\nhint: a rank has a host of its own",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"goal\"\nfile = \"tests/hostile/goal/many.goal\"",
        "line 21: workload.file: tests/hostile/goal/many.goal, line 1: num_ranks is no number from 1 to 1048576\nhint: the first line is `num_ranks 2`, for instance",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"goal\"\nfile = \"tests/hostile/goal/short.goal\"",
        "line 21: workload.file: tests/hostile/goal/short.goal, line 6: 16 bytes come, and there is room for 8\nhint: the send is in line 3",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"goal\"\nfile = \"Cargo.toml\"",
        "line 21: workload.file: Cargo.toml, line 1: num_ranks is not said first\nhint: the first line is `num_ranks 2`, for instance",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"chakra\"\nprefix = \"nowhere\"",
        "line 21: workload.prefix: cannot read \"nowhere.0.et\": it is not there\nhint: the path is relative to the scenario, and each rank has a file",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"chakra\"\nprefix = \"tests/hostile/chakra/cut\"",
        "line 21: workload.prefix: tests/hostile/chakra/cut.0.et: at byte 2 there is no message\nhint: write the file again: it may be cut, or no trace of Chakra",
    ),
    (
        "message_bytes = 100000",
        "message_bytes = 100000\n[[workload]]\nkind = \"chakra\"\nprefix = \"tests/hostile/chakra/cut\"\nhosts = [\"h0\", \"h1\", \"h2\"]",
        "line 21: workload.prefix: cannot read \"tests/hostile/chakra/cut.2.et\": it is not there\nhint: the path is relative to the scenario, and each rank has a file",
    ),
];
