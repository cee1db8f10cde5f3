/** An example: what the network sees, and whether it is a face. */
export interface Example {
  readonly features: Float32Array;
  readonly face: boolean;
  /** Name of the kind of picture; all kinds of faces weigh the same together, and so do all kinds of others. */
  readonly kind: string;
}

/** Pull of the weights towards 0, for features of variance 1. */
const RIDGE = 0.02;
const STEPS = 500;

/**
 * Trains a logistic regression by gradient descent with Nesterov's momentum (1983). The same examples give the same
 * classifier.
 * @returns bias and weights for features as they are
 */
export function trainClassifier(examples: readonly Example[]): { bias: number; weights: Float64Array } {
  const inputs = examples[0]?.features.length ?? 0;
  const shares = sharesOf(examples);
  const { mean, scale } = spread(examples, shares, inputs);
  const rows = examples.map(({ features }) =>
    features.map((v, i) => (v - (mean[i] as number)) * (scale[i] as number)),
  );
  // The curvature is at most a quarter of the weighted mean square of the rows, and the ridge.
  const square = rows.reduce(
    (sum, row, k) => sum + (shares[k] as number) * row.reduce((part, v) => part + v * v, 1),
    0,
  );
  const rate = 1 / (square / 4 + RIDGE);
  let weights = new Float64Array(inputs + 1);
  let ahead = weights.slice();
  for (let step = 1; step <= STEPS; step++) {
    const gradient = ahead.map((w, i) => (i < inputs ? RIDGE * w : 0));
    for (const [k, row] of rows.entries()) {
      const face = examples[k]?.face ? 1 : 0;
      let sum = ahead[inputs] as number;
      for (let i = 0; i < inputs; i++) sum += (ahead[i] as number) * (row[i] as number);
      const pull = (1 / (1 + Math.exp(-sum)) - face) * (shares[k] as number);
      for (let i = 0; i < inputs; i++) gradient[i] = (gradient[i] as number) + pull * (row[i] as number);
      gradient[inputs] = (gradient[inputs] as number) + pull;
    }
    const next = ahead.map((w, i) => w - rate * (gradient[i] as number));
    ahead = next.map((w, i) => w + ((step - 1) / (step + 2)) * (w - (weights[i] as number)));
    weights = next;
  }
  let bias = weights[inputs] as number;
  const plain = weights.subarray(0, inputs).map((w, i) => w * (scale[i] as number));
  for (let i = 0; i < inputs; i++) bias -= (plain[i] as number) * (mean[i] as number);
  return { bias, weights: plain };
}

/** Returns the weight of each example; they sum up to 1. */
function sharesOf(examples: readonly Example[]): number[] {
  const kinds = new Map<string, number>();
  for (const { kind } of examples) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  const kindsOf = (face: boolean): number =>
    new Set(examples.filter((example) => example.face === face).map(({ kind }) => kind)).size;
  const halves = { faces: kindsOf(true), others: kindsOf(false) };
  return examples.map(({ face, kind }) => {
    return 0.5 / (face ? halves.faces : halves.others) / (kinds.get(kind) as number);
  });
}

function spread(examples: readonly Example[], shares: readonly number[], inputs: number) {
  const mean = new Float64Array(inputs);
  const square = new Float64Array(inputs);
  for (const [k, { features }] of examples.entries()) {
    for (let i = 0; i < inputs; i++) {
      const value = features[i] as number;
      mean[i] = (mean[i] as number) + value * (shares[k] as number);
      square[i] = (square[i] as number) + value * value * (shares[k] as number);
    }
  }
  const scale = square.map((s, i) => 1 / (Math.sqrt(Math.max(0, s - (mean[i] as number) ** 2)) + 1e-3));
  return { mean, scale };
}
