use std::{
    cell::Cell,
    pin::pin,
    task::{Context, Waker},
};

use super::*;

#[test]
fn one_scrape_is_made_at_a_time_in_the_order_in_which_they_came() {
    let scrapes = Scrapes::default();
    let (first_goes_on, second_began) = (Cell::new(false), Cell::new(false));
    let first = std::future::poll_fn(|_| {
        if first_goes_on.get() { std::task::Poll::Ready(1) } else { std::task::Poll::Pending }
    });
    let mut first = pin!(scrapes.alone(first));
    let mut second = pin!(scrapes.alone(async {
        second_began.set(true);
        2
    }));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut cx).is_pending());
    assert!(second.as_mut().poll(&mut cx).is_pending() && !second_began.get());
    first_goes_on.set(true);
    assert_eq!(first.as_mut().poll(&mut cx), std::task::Poll::Ready(Some(1)));
    assert_eq!(second.as_mut().poll(&mut cx), std::task::Poll::Ready(Some(2)));
}

#[test]
fn a_scrape_that_is_given_up_holds_nobody_up() {
    let scrapes = Scrapes::default();
    let mut cx = Context::from_waker(Waker::noop());
    {
        let mut first = pin!(scrapes.alone(std::future::pending::<()>()));
        assert!(first.as_mut().poll(&mut cx).is_pending());
    }
    let mut second = pin!(scrapes.alone(async { 2 }));
    assert_eq!(second.as_mut().poll(&mut cx), std::task::Poll::Ready(Some(2)));
}

#[test]
fn answers_that_are_not_read_have_so_much_memory_together() {
    let scrapes = Scrapes::default();
    let half = scrapes.keep(UNREAD_BYTES_MAX / 2).unwrap();
    let most = scrapes.keep(UNREAD_BYTES_MAX / 2 - 1);
    assert!(most.is_some() && scrapes.keep(1).is_none());
    drop(half);
    assert!(scrapes.keep(1).is_some() && scrapes.keep(usize::MAX).is_none());
    drop(most);
    let alone = scrapes.keep(usize::MAX);
    assert!(alone.is_some() && scrapes.keep(1).is_none());
}
