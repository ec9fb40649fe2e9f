use super::*;

#[test]
fn the_ring_comes_back_after_all_lines_and_not_before() {
    let ring = ring(4_096 * LINE);
    let lines = ring.len() / LINE;
    let (mut at, mut steps) = (0, 0);
    loop {
        at = ring[at as usize * LINE];
        steps += 1;
        if at == 0 {
            break;
        }
    }
    assert_eq!((lines, steps), (1_024, 1_024));
}
