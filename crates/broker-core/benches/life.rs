//! The whole life of a message in the core: enqueue, lock and deliver, complete, with all records.

fn main() {}
