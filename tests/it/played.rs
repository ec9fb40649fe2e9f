//! Scenarios of the .NET SDKs' own live tests, which no recording holds: a client that writes its frames as the recorded
//! driver on `Microsoft.Azure.Amqp` 2.7.1 did makes them on the player. Neither SDK was run for them: they are scripted.

mod driver;
mod receiving;
mod sessions;
mod transactions;
