//! Scenarios of the .NET SDKs' own live tests, and message pumps of frameworks, which no recording holds: a client that
//! writes its frames as the recorded driver on `Microsoft.Azure.Amqp` 2.7.1 did makes them on the player. Neither an SDK nor a
//! framework was run for them: they are scripted.

mod driver;
mod pumps;
mod receiving;
mod rules;
mod sessions;
mod transactions;
