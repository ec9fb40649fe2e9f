//! Cost of the core for each message, which must not grow with the number of stored messages: `cargo bench -p broker-core
//! -- NAME`, where the name is a part of what is printed.

mod fan_out;
mod life;
mod scheduled;
mod sessions;
mod toolbox;

criterion::criterion_main!(life::benches, fan_out::benches, scheduled::benches, sessions::benches);
