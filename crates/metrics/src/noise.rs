// SPDX-License-Identifier: GPL-2.0-only
//! What of a spread is the measurement's own.

/// The standard deviation of a run relative to the mean of its experiment, pooled over experiments that were repeated:
/// the root of the mean of their variances, weighted by their degrees of freedom. Those with fewer than two runs, or a
/// mean that is not above 0, tell nothing; none if none tells.
pub fn relative_noise<'a>(experiments: impl IntoIterator<Item = &'a [f64]>) -> Option<f64> {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for runs in experiments {
        let mean = runs.iter().sum::<f64>() / runs.len() as f64;
        if runs.len() > 1 && mean > 0.0 {
            squares += runs.iter().map(|run| (run / mean - 1.0).powi(2)).sum::<f64>();
            freedom += runs.len() as f64 - 1.0;
        }
    }
    (freedom > 0.0).then(|| (squares / freedom).sqrt())
}

/// Samples as they would lie without noise of this standard deviation (in their unit): drawn towards their mean until
/// their variance is less by that of the noise. All are the mean where the noise explains the whole spread. Exact for
/// normal distributions; others keep their shape.
pub fn without_noise(samples: &[f64], noise: f64) -> Vec<f64> {
    let nr = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / nr;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let noise_squares = noise * noise * (nr - 1.0);
    let kept = if squares > noise_squares {
        (1.0 - noise_squares / squares).sqrt()
    } else {
        0.0
    };
    samples
        .iter()
        .map(|sample| mean + kept * (sample - mean))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_pooled() {
        assert_eq!(relative_noise([&[5.0][..], &[]]), None);
        assert_eq!(relative_noise([&[5.0, 5.0][..]]), Some(0.0));
        // Variances of 0.02 and 0.08 with one degree of freedom each, whatever the scale.
        let noise = relative_noise([&[90.0, 110.0][..], &[0.8, 1.2], &[7.0]]).unwrap();
        assert!((noise - 0.05f64.sqrt()).abs() < 1e-12, "{noise}");
    }

    #[test]
    fn what_is_left_has_the_rest_of_the_variance() {
        let samples = [1.0, 2.0, 3.0, 4.0, 10.0];
        let variance = |values: &[f64]| crate::Summary::of(values).unwrap().sd.powi(2);
        let left = without_noise(&samples, 2.0);
        assert!((variance(&left) - (variance(&samples) - 4.0)).abs() < 1e-12);
        assert_eq!(without_noise(&samples, 0.0), samples);
        assert_eq!(without_noise(&samples, 100.0), [4.0; 5]);
    }
}
