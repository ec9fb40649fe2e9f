use std::cell::Cell;

use super::*;

#[test]
fn blocked_consumers_that_leave_one_after_the_other_cost_about_one_look_each() {
    for count in [100_usize, 1_000, 10_000] {
        let mut client =
            Client { blocked: (1..).map(ConsumerNumber).take(count).collect(), ..Client::default() };
        let looks = Cell::new(0_usize);
        for left in 1..=count {
            client.leave_blocked(|number| {
                looks.set(looks.get() + 1);
                number.0 as usize > left
            });
            assert!(client.blocked.len() <= 2 * (count - left) + 1, "{left} of {count}");
        }
        assert!(client.blocked.is_empty());
        assert!(looks.get() <= 2 * count, "{} looks for {count}", looks.get());
    }
}
