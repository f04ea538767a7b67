// SPDX-License-Identifier: GPL-2.0-only
//! Gaussian process regression (Rasmussen and Williams, *Gaussian Processes for Machine Learning*, 2006; *GPML*).
//!
//! The kernel is a sum: linear in the features, since disturbances add up as long as they are small; squared exponential
//! in how many threads there are at each distance, since shared hardware saturates; and squared exponential in all
//! features. Tasks share it to a degree (a coregionalisation of one parameter). Its parameters are those of the largest
//! marginal likelihood on a small grid. What intervals are too narrow by is then taken from the residuals that leaving
//! out one point at a time gives.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

use super::features::Point;

/// Points by feature, so that a row of the kernel takes one pass over the features that a point has.
#[derive(Debug, Default)]
struct Columns {
    by_feature: Vec<Vec<f32>>,
    squares: Vec<f32>,
    totals: Vec<Vec<f32>>,
    tasks: Vec<usize>,
}

impl Columns {
    fn new(points: &[Point]) -> Columns {
        let mut columns = Columns::default();
        for (nr, point) in points.iter().enumerate() {
            for &(feature, value) in &point.features {
                let feature = feature as usize;
                if columns.by_feature.len() <= feature {
                    columns.by_feature.resize(feature + 1, Vec::new());
                }
                let column = &mut columns.by_feature[feature];
                column.resize(points.len(), 0.0);
                column[nr] = value;
            }
            columns.squares.push(square(point));
            columns.tasks.push(point.task);
        }
        let nr_totals = points.first().map_or(0, |point| point.totals.len());
        columns.totals = (0..nr_totals)
            .map(|distance| points.iter().map(|point| point.totals[distance]).collect())
            .collect();
        columns
    }

    /// The scalar products of a point with all points.
    fn products(&self, point: &Point) -> Vec<f32> {
        let mut products = vec![0.0f32; self.squares.len()];
        for &(feature, value) in &point.features {
            if let Some(column) = self.by_feature.get(feature as usize) {
                let each = products.iter_mut().zip(column);
                each.for_each(|(product, of)| *product += value * of);
            }
        }
        products
    }

    /// The squared distances of a point's totals from all points'.
    fn total_distances(&self, point: &Point) -> Vec<f32> {
        let mut distances = vec![0.0f32; self.squares.len()];
        for (value, column) in point.totals.iter().zip(&self.totals) {
            let each = distances.iter_mut().zip(column);
            each.for_each(|(distance, of)| *distance += (value - of) * (value - of));
        }
        distances
    }
}

fn mean_square(points: &[Point]) -> f32 {
    points.iter().map(square).sum::<f32>() / points.len().max(1) as f32
}

fn square(point: &Point) -> f32 {
    point.features.iter().map(|(_, value)| value * value).sum()
}

/// Of the kernel, relative to its scale.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parameters {
    /// Lengths of the squared exponentials.
    length: f32,
    total_length: f32,
    /// Shares of the three terms.
    linear: f32,
    totals: f32,
    all: f32,
    /// What tasks have in common, 0 to 1.
    common: f32,
    /// Variance of the noise.
    noise: f64,
}

impl Parameters {
    fn start(mean_square: f32) -> Parameters {
        Parameters {
            length: mean_square.max(1.0).sqrt(),
            total_length: 2.0,
            linear: 1.0 / mean_square.max(1.0),
            totals: 1.0,
            all: 1.0,
            common: 0.5,
            noise: 1e-4,
        }
    }

    /// The logarithm of what the parameters' probability is before anything is measured, up to a constant: each is off
    /// the start by about two steps of the grid. It keeps a few points from certainty.
    fn prior(&self, mean_square: f32) -> f64 {
        let start = Parameters::start(mean_square);
        let off = |now: f32, then: f32, by: f32| f64::from(((now / then).ln() / by.ln()).powi(2));
        let sum = off(self.length, start.length, 3.0)
            + off(self.total_length, start.total_length, 3.0)
            + off(self.linear, start.linear, 10.0)
            + off(self.totals, start.totals, 10.0)
            + off(self.noise as f32, start.noise as f32, 30.0);
        -0.5 * sum
    }

    fn kernel(&self, product: f32, distance: f32, total_distance: f32, is_same_task: bool) -> f64 {
        let near = (-distance / (2.0 * self.length * self.length)).exp();
        let alike = (-total_distance / (2.0 * self.total_length * self.total_length)).exp();
        let common = if is_same_task { 1.0 } else { self.common };
        f64::from((self.linear * product + self.all * near + self.totals * alike) * common)
    }

    /// The grid: what one parameter may change to from here.
    fn neighbours(&self, which: usize) -> Vec<Parameters> {
        let mut some = Vec::new();
        for factor in [0.25f32, 0.5, 2.0, 4.0] {
            let mut other = *self;
            match which {
                0 => other.length = (other.length * factor).clamp(0.5, 64.0),
                1 => other.total_length = (other.total_length * factor).clamp(0.25, 64.0),
                2 => other.linear = (other.linear * factor * factor).clamp(1e-5, 10.0),
                3 => other.totals = (other.totals * factor * factor).clamp(1e-4, 100.0),
                4 => other.common = (other.common + (factor - 1.25) / 4.0).clamp(0.05, 0.98),
                _ => other.noise = (other.noise * f64::from(factor) * f64::from(factor)).clamp(1e-7, 1e-1),
            }
            some.push(other);
        }
        some
    }
}

/// Parameters that [`Parameters::neighbours`] can change.
const NR_PARAMETERS: usize = 6;

/// As many points choose the parameters: more cost more time than they tell.
const MAX_CHOOSING: usize = 200;

/// Relative to the kernel's diagonal, so that it stays positive definite in floating point.
const JITTER: f64 = 1e-9;

/// What the scale is taken to be before anything is measured, and how many points that is worth: entries differ by some
/// 10 %. Without it a few equal figures would make everything certain.
const PRIOR_SCALE: f64 = 0.01;
const PRIOR_POINTS: f64 = 2.0;

/// A regression.
#[derive(Debug)]
pub(super) struct Gaussian {
    columns: Columns,
    points: usize,
    parameters: Parameters,
    /// The kernel's variance.
    scale: f64,
    factor: Cholesky<f64, Dyn>,
    weights: DVector<f64>,
    mean: f64,
    /// What standard deviations are multiplied by, at least 1.
    calibration: f64,
}

/// What is expected of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    pub mean: f64,
    /// The standard deviation.
    pub sd: f64,
}

impl Gaussian {
    /// Of values at points: `mean` is what is expected far from all. None for values that are not finite and for
    /// fewer than two points.
    ///
    /// `surprises` are by how many standard deviations of earlier regressions what they expected was off: points that
    /// lie further out than any before are not among those that leaving one out shows.
    pub fn new(points: &[Point], values: &[f64], mean: f64, surprises: &[f64]) -> Option<Gaussian> {
        if points.len() < 2 || points.len() != values.len() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
        let parameters = choose(points, &centred);
        let columns = Columns::new(points);
        let (factor, weights, scale) = fit(&columns, points, &centred, &parameters)?;
        let mut gaussian = Gaussian {
            columns,
            points: points.len(),
            parameters,
            scale,
            factor,
            weights,
            mean,
            calibration: 1.0,
        };
        // That the parameters are uncertain too, and that other entries lie further out, is not in the residuals. How much
        // that widens intervals was measured: it makes those of all variants on the T2 cover what they say.
        let few = 1.0 + 2.0 / (points.len() as f64).sqrt();
        gaussian.calibration = few * excess(gaussian.residuals()).max(excess(surprises.to_vec()));
        Some(gaussian)
    }

    fn row(&self, point: &Point) -> DVector<f64> {
        row(&self.columns, &self.parameters, point)
    }

    fn own(&self, point: &Point) -> f64 {
        self.parameters.kernel(square(point), 0.0, 0.0, true)
    }

    /// The mean only, which is much cheaper.
    pub fn mean(&self, point: &Point) -> f64 {
        self.mean + self.row(point).dot(&self.weights)
    }

    /// Mean and standard deviation, that of the noise included (GPML, eqs. 2.25 and 2.26).
    pub fn expect(&self, point: &Point) -> Expected {
        let row = self.row(point);
        let explained = self.whiten(&row);
        let variance = self.own(point) - explained.norm_squared() + self.parameters.noise;
        Expected {
            mean: self.mean + row.dot(&self.weights),
            sd: self.calibration * (self.scale * variance.max(self.parameters.noise)).sqrt(),
        }
    }

    fn whiten(&self, row: &DVector<f64>) -> DVector<f64> {
        let mut explained = row.clone();
        self.factor.l_dirty().solve_lower_triangular_mut(&mut explained);
        explained
    }

    /// By how many standard deviations an expectation is off, the calibration left out.
    pub fn surprise(&self, point: &Point, value: f64) -> f64 {
        let Expected { mean, sd } = self.expect(point);
        (value - mean).abs() / sd * self.calibration
    }

    /// The standardised residuals of leaving one out (GPML, eqs. 5.10 to 5.12).
    fn residuals(&self) -> Vec<f64> {
        let inverse = self.factor.inverse();
        (0..self.points)
            .map(|nr| self.weights[nr].abs() / (inverse[(nr, nr)] * self.scale).sqrt())
            .collect()
    }
}

/// The 95 % quantile of residuals as a multiple of the normal distribution's, 1 to 10. The quantile is that of the next
/// residual, so of few the largest (split conformal prediction: Lei et al., JASA 2018, doi:10.1080/01621459.2017.1307116).
fn excess(mut residuals: Vec<f64>) -> f64 {
    residuals.sort_by(f64::total_cmp);
    let rank = ((residuals.len() + 1) as f64 * 0.95).ceil() as usize;
    let Some(last) = residuals.len().checked_sub(1) else {
        return 1.0;
    };
    (residuals[(rank - 1).min(last)] / super::NORMAL_95).clamp(1.0, 10.0)
}

fn row(columns: &Columns, parameters: &Parameters, point: &Point) -> DVector<f64> {
    let own = square(point);
    let products = columns.products(point);
    let totals = columns.total_distances(point);
    DVector::from_iterator(
        products.len(),
        (0..products.len()).map(|nr| {
            let distance = (own + columns.squares[nr] - 2.0 * products[nr]).max(0.0);
            parameters.kernel(
                products[nr],
                distance,
                totals[nr],
                columns.tasks[nr] == point.task,
            )
        }),
    )
}

/// The factor of the kernel matrix, the weights of the points, and the scale of the largest marginal likelihood.
fn fit(
    columns: &Columns,
    points: &[Point],
    centred: &[f64],
    parameters: &Parameters,
) -> Option<(Cholesky<f64, Dyn>, DVector<f64>, f64)> {
    let nr = points.len();
    let mut matrix = DMatrix::zeros(nr, nr);
    for (at, point) in points.iter().enumerate() {
        matrix.set_column(at, &row(columns, parameters, point));
        matrix[(at, at)] += parameters.noise + JITTER * matrix[(at, at)];
    }
    let factor = Cholesky::new(matrix)?;
    let values = DVector::from_column_slice(centred);
    let weights = factor.solve(&values);
    let scale = (values.dot(&weights) + PRIOR_POINTS * PRIOR_SCALE) / (nr as f64 + PRIOR_POINTS);
    Some((factor, weights, scale))
}

/// The logarithm of the marginal likelihood at its best scale, up to a constant (GPML, eq. 2.30).
fn likelihood(columns: &Columns, points: &[Point], centred: &[f64], parameters: &Parameters) -> f64 {
    let Some((factor, _, scale)) = fit(columns, points, centred, parameters) else {
        return f64::NEG_INFINITY;
    };
    let determinant: f64 = factor.l_dirty().diagonal().iter().map(|d| d.ln()).sum();
    -0.5 * points.len() as f64 * scale.ln() - determinant + parameters.prior(mean_square(points))
}

/// Climbs the grid one parameter after the other.
fn choose(points: &[Point], centred: &[f64]) -> Parameters {
    let step = points.len().div_ceil(MAX_CHOOSING);
    let some: Vec<Point> = points.iter().step_by(step).cloned().collect();
    let values: Vec<f64> = centred.iter().step_by(step).copied().collect();
    let columns = Columns::new(&some);
    let mut best = Parameters::start(mean_square(&some));
    let mut highest = likelihood(&columns, &some, &values, &best);
    for _ in 0..2 {
        let before = best;
        for which in 0..NR_PARAMETERS {
            for other in best.neighbours(which) {
                let reached = likelihood(&columns, &some, &values, &other);
                if reached > highest {
                    (best, highest) = (other, reached);
                }
            }
        }
        if best == before {
            break;
        }
    }
    best
}

/// Chooses what to measure together: after each choice the uncertainty of the others falls, for which the values need not
/// be known yet.
pub(super) struct Pool<'g> {
    gaussian: &'g Gaussian,
    points: Vec<Point>,
    explained: Vec<Vec<f64>>,
    /// Relative to the kernel's scale.
    variances: Vec<f64>,
}

impl<'g> Pool<'g> {
    pub fn new(gaussian: &'g Gaussian, points: Vec<Point>) -> Self {
        let explained: Vec<Vec<f64>> = points
            .iter()
            .map(|point| gaussian.whiten(&gaussian.row(point)).as_slice().to_vec())
            .collect();
        let variances = points
            .iter()
            .zip(&explained)
            .map(|(point, explained)| gaussian.own(point) - dot(explained, explained))
            .collect();
        Pool {
            gaussian,
            points,
            explained,
            variances,
        }
    }

    /// The present standard deviation of each point, without noise.
    pub fn sd(&self, nr: usize) -> f64 {
        self.gaussian.calibration * (self.gaussian.scale * self.variances[nr].max(0.0)).sqrt()
    }

    /// Takes a point as measured.
    pub fn take(&mut self, taken: usize) {
        let point = self.points[taken].clone();
        let explained = self.explained[taken].clone();
        let columns = Columns::new(std::slice::from_ref(&point));
        let noise = self.gaussian.parameters.noise;
        let norm = (self.variances[taken].max(0.0) + noise).sqrt();
        for nr in 0..self.points.len() {
            let prior = row(&columns, &self.gaussian.parameters, &self.points[nr])[0];
            let more = (prior - dot(&explained, &self.explained[nr])) / norm;
            self.explained[nr].push(more);
            self.variances[nr] -= more * more;
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
