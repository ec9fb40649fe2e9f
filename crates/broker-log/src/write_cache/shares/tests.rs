use super::*;

/// Owners with living bytes and a weight each.
fn shares(owners: &[(u64, u16)], keep: u64) -> Vec<u64> {
    let (mut shares, mut weights) = (CacheShares::default(), Weights::default());
    for (owner, (live, weight)) in (0..).zip(owners) {
        shares.add_run(Owner(owner), *live);
        weights.set(Owner(owner), *weight);
    }
    shares.compute(keep, &weights);
    (0..).zip(owners).map(|(owner, _)| shares.share(Owner(owner), &weights)).collect()
}

#[test]
fn bytes_are_shared_by_weight_and_what_one_does_not_need_goes_to_the_others() {
    const ALL: u64 = u64::MAX;
    for (owners, expected) in [
        (&[(500, 1), (200, 1)][..], &[ALL, ALL][..]),
        (&[(900, 1), (900, 1)], &[350, 350]),
        (&[(900, 1), (900, 6)], &[100, 600]),
        (&[(100, 1), (900, 1)], &[600, 600]),
        (&[(100, 3), (900, 1)], &[1_800, 600]),
        (&[(0, 1), (900, 1), (900, 1)], &[350, 350, 350]),
        (&[(50, 1), (250, 1), (900, 1), (900, 1)], &[216, 216, 216, 216]),
    ] {
        assert_eq!(shares(owners, 800), expected, "{owners:?}");
    }
}

#[test]
fn an_owner_is_present_until_its_last_run_has_gone() {
    let (mut shares, weights) = (CacheShares::default(), Weights::default());
    for owner in [1, 2, 7] {
        shares.add_run(Owner(owner), 10);
    }
    shares.compute(100, &weights);
    assert!(shares.is_shared(Owner(2)));
    // Dead, but still there.
    shares.release(Owner(1), 10);
    shares.remove_run(Owner(2), 10);
    shares.add_retained(Owner(2), 10);
    shares.remove_run(Owner(7), 10);
    shares.compute(100, &weights);
    assert!(shares.is_shared(Owner(2)));
    shares.remove_run(Owner(1), 0);
    shares.compute(100, &weights);
    assert!(!shares.is_shared(Owner(2)));
    assert!(shares.is_shared(Owner(3)), "another one comes");
    assert_eq!((shares.present(0), shares.present(1)), (Some(Owner(2)), None));
    shares.add_run(Owner(7), 1);
    shares.compute(100, &weights);
    assert!(shares.is_shared(Owner(2)));
}

#[test]
fn shares_of_many_owners_are_computed_once_for_many_chunks() {
    let (mut shares, weights) = (CacheShares::default(), Weights::default());
    assert!(shares.is_due());
    for owner in 0..1_000 {
        shares.add_run(Owner(owner), 10);
    }
    shares.compute(100, &weights);
    let chunks = (0..100).take_while(|_| {
        shares.note_forgotten();
        !shares.is_due()
    });
    assert_eq!(chunks.count(), 1_000 / OWNERS_PER_CHUNK - 1);
}

#[test]
fn an_owner_never_gets_less_than_its_part_by_weight() {
    let owners: Vec<_> =
        (0..200_u32).map(|n| (u64::from(n) * 1_000, u16::try_from(1 + n % 7).unwrap())).collect();
    let all: u64 = owners.iter().map(|(_, weight)| u64::from(*weight)).sum();
    for keep in [0, 7, 1_000, 100_000, 5_000_000] {
        for ((_, weight), share) in owners.iter().zip(shares(&owners, keep)) {
            let part = (keep - keep / UNSHARED_FRACTION) / all * u64::from(*weight);
            assert!(share >= part, "{share} of {keep}");
        }
        let used: u64 =
            owners.iter().zip(shares(&owners, keep)).map(|((live, _), share)| share.min(*live)).sum();
        assert!(used <= keep, "{used} of {keep}");
    }
}
