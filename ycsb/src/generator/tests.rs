//! Do the draws follow the distribution that they are named after? Seeds are fixed, bounds are
//! wide, and every check is also shown samples that it has to reject.

use rand::SeedableRng as _;

use super::zipfian::zeta;
use super::*;

const SAMPLES: usize = 400_000;

fn random() -> Random {
    Random::seed_from_u64(0x5EED)
}

/// Pearson's statistic of `counts` against `expected`.
fn chi_square(counts: &[u64], expected: &[f64]) -> f64 {
    let terms = counts.iter().zip(expected);
    terms.map(|(&count, &mean)| (count as f64 - mean).powi(2) / mean).sum()
}

/// Whether `draws` are spread evenly over `0..100`. With 99 degrees of freedom the statistic has
/// mean 99 and deviation 14; far below is as suspicious as far above.
fn is_uniform(draws: impl Iterator<Item = u64>) -> bool {
    let mut counts = [0; 100];
    draws.take(SAMPLES).for_each(|draw| counts[draw as usize] += 1);
    (35.0..180.0).contains(&chi_square(&counts, &[SAMPLES as f64 / 100.0; 100]))
}

/// Whether ranks among `items` follow the zipfian distribution. The sampler is exact for ranks 0
/// and 1 and approximates the others, so those are held to 1 % and the cumulated shares to 6 %.
fn is_zipfian(draws: impl Iterator<Item = u64>, items: u64, theta: f64) -> bool {
    let draws: Vec<u64> = draws.take(SAMPLES).collect();
    let share =
        |below: u64| draws.iter().filter(|&&rank| rank < below).count() as f64 / draws.len() as f64;
    let agrees = |below: u64, tolerance: f64| {
        let expected = zeta(below, theta) / zeta(items, theta);
        (share(below) - expected).abs() < tolerance * expected + 0.001
    };
    agrees(1, 0.01) && agrees(2, 0.01) && [10, 100, 1_000].into_iter().all(|n| agrees(n, 0.06))
}

fn scrambled_shares(theta: f64) -> Vec<f64> {
    let scrambled = Scrambled::new(0, 1_000, theta);
    let mut random = random();
    let mut counts = vec![0_u64; 1_000];
    (0..SAMPLES).for_each(|_| counts[scrambled.sample(&mut random) as usize] += 1);
    counts.into_iter().map(|count| count as f64 / SAMPLES as f64).collect()
}

#[test]
fn uniform_draws_are_uniform() {
    let mut random = random();
    let uniform = Uniform::new(0, 99);
    assert!(is_uniform(std::iter::repeat_with(|| uniform.sample(&mut random))));
}

#[test]
fn the_uniform_check_rejects_what_is_not() {
    let mut source = random();
    let narrow = Uniform::new(0, 98);
    assert!(!is_uniform(std::iter::repeat_with(|| narrow.sample(&mut source))));
    let zipfian = Zipfian::new(100, 0.5);
    assert!(!is_uniform(std::iter::repeat_with(|| zipfian.sample(&mut source))));
    assert!(!is_uniform((0..).map(|draw| draw % 100)), "a cycle is too even to be random");
}

#[test]
fn uniform_includes_both_ends() {
    let mut random = random();
    let uniform = Uniform::new(7, 9);
    let mut seen = [false; 3];
    (0..100).for_each(|_| seen[uniform.sample(&mut random) as usize - 7] = true);
    assert_eq!(seen, [true; 3]);
}

#[test]
fn zipfian_draws_are_zipfian() {
    for theta in [0.5, 0.8, 0.99] {
        let mut random = random();
        let zipfian = Zipfian::new(100_000, theta);
        let draws = std::iter::repeat_with(|| zipfian.sample(&mut random));
        assert!(is_zipfian(draws, 100_000, theta), "theta = {theta}");
    }
}

#[test]
fn the_zipfian_check_rejects_what_is_not() {
    let mut source = random();
    let uniform = Uniform::new(0, 99_999);
    assert!(!is_zipfian(std::iter::repeat_with(|| uniform.sample(&mut source)), 100_000, 0.99));
    let flatter = Zipfian::new(100_000, 0.95);
    assert!(!is_zipfian(std::iter::repeat_with(|| flatter.sample(&mut source)), 100_000, 0.99));
    let fewer = Zipfian::new(50_000, 0.99);
    assert!(!is_zipfian(std::iter::repeat_with(|| fewer.sample(&mut source)), 100_000, 0.99));
}

/// The most popular record has the share of rank 0 among 10^10 items, 1 / 26.47, and a thousandth
/// of what is not concentrated on the first ranks falls on it besides.
#[test]
fn scrambled_draws_put_the_popular_records_where_upstream_does() {
    let shares = scrambled_shares(0.99);
    let first = shares[211];
    let second = shares[620];
    assert!((0.0375..0.0395).contains(&first), "record fnv64(0) % 1000 got {first}");
    assert!((0.0185..0.0210).contains(&second), "record fnv64(1) % 1000 got {second}");
    assert!(shares.iter().all(|&share| share <= first && share > 0.0));
}

#[test]
fn another_zipfian_constant_changes_the_skew() {
    let first = scrambled_shares(0.7)[211];
    assert!(first < 0.003, "theta 0.7 over 10^10 items hardly favours anything, got {first}");
    let first = scrambled_shares(1.2)[211];
    let expected = 1.0 / zeta(10_000_000_001, 1.2);
    assert!((first - expected).abs() < 0.01, "got {first} instead of {expected}");
}

#[test]
fn latest_favours_the_newest_acknowledged_record() {
    let inserted = AcknowledgedCounter::after(1_000);
    let mut chooser = KeyChooser::Latest(Latest::new(inserted.last(), 0.99));
    let mut random = random();
    let mut distances = |chooser: &mut KeyChooser, inserted: &AcknowledgedCounter| {
        let draws: Vec<u64> =
            (0..SAMPLES).map(|_| inserted.last() - chooser.next(&mut random, inserted)).collect();
        draws.into_iter()
    };
    assert!(is_zipfian(distances(&mut chooser, &inserted), 999, 0.99));

    for _ in 0..1_000 {
        let number = inserted.next();
        inserted.acknowledge(number);
    }
    let unacknowledged = inserted.next();
    assert!(unacknowledged > inserted.last());
    let draws: Vec<u64> = distances(&mut chooser, &inserted).collect();
    let newest = draws.iter().filter(|&&distance| distance == 0).count() as f64 / SAMPLES as f64;
    assert!((newest - 1.0 / zeta(1_999, 0.99)).abs() < 0.003, "newest got {newest}");
    assert!(draws.iter().any(|&distance| distance > 1_500), "the old ones are still asked for");
}

#[test]
fn records_beyond_the_acknowledged_are_never_chosen() {
    let inserted = AcknowledgedCounter::after(100);
    let mut chooser = KeyChooser::Zipfian(Scrambled::new(0, 300, 0.99));
    let mut random = random();
    assert!((0..10_000).all(|_| chooser.next(&mut random, &inserted) < 100));
}
