// Maps over photos: viridis, whose lightness only rises, and an outline around half of the attention, which needs no colour.

const VIRIDIS = [
  [68, 1, 84], [72, 36, 117], [65, 68, 135], [53, 95, 141], [42, 120, 142], [33, 145, 140],
  [34, 168, 132], [68, 191, 112], [122, 209, 81], [189, 223, 38], [253, 231, 37],
];
const SIDE = 192;
const STRENGTH = 0.6;

export function colour(value) {
  const place = Math.min(Math.max(value, 0), 1) * (VIRIDIS.length - 1);
  const low = Math.floor(place), high = Math.min(low + 1, VIRIDIS.length - 1);
  return VIRIDIS[low].map((channel, k) => Math.round(channel + (VIRIDIS[high][k] - channel) * (place - low)));
}

// Attention in even shares: 1 wherever a step prefers no region.
export function evenShares(grid) {
  const cells = grid.length * grid[0].length;
  return grid.map((row) => row.map((share) => share * cells));
}

// Where the colours end: at least 2, so that an almost even map looks even; at most 4, so that one sharp map does not
// leave the others in the dark.
export function limitOf(grids) {
  return Math.min(4, Math.max(2, ...grids.flat(2)));
}

function stretched(grid) {
  const rows = grid.length, columns = grid[0].length, values = new Float32Array(SIDE * SIDE);
  const at = (position, count) => Math.min(Math.max(((position + 0.5) / SIDE) * count - 0.5, 0), count - 1);
  for (let y = 0; y < SIDE; y += 1) {
    const v = at(y, rows), top = Math.floor(v), bottom = Math.min(top + 1, rows - 1), down = v - top;
    for (let x = 0; x < SIDE; x += 1) {
      const u = at(x, columns), left = Math.floor(u), right = Math.min(left + 1, columns - 1), across = u - left;
      values[y * SIDE + x] =
        (grid[top][left] * (1 - across) + grid[top][right] * across) * (1 - down) +
        (grid[bottom][left] * (1 - across) + grid[bottom][right] * across) * down;
    }
  }
  return values;
}

// The least value within the smallest area that holds half of the attention.
function halfThreshold(values) {
  const order = Float32Array.from(values).sort().reverse();
  const half = order.reduce((sum, value) => sum + value, 0) / 2;
  let held = 0;
  for (const value of order) if ((held += value) >= half) return value;
  return 0;
}

export function draw(canvas, grid, limit) {
  canvas.width = canvas.height = SIDE;
  const shares = stretched(evenShares(grid)), context = canvas.getContext("2d");
  const picture = context.createImageData(SIDE, SIDE);
  const even = Math.max(...shares) < 1.05, threshold = even ? -1 : halfThreshold(shares);
  const inside = (x, y) => shares[y * SIDE + x] >= threshold;
  for (let y = 0; y < SIDE; y += 1) {
    for (let x = 0; x < SIDE; x += 1) {
      const edge = !even && inside(x, y) &&
        ((x > 0 && !inside(x - 1, y)) || (x < SIDE - 1 && !inside(x + 1, y)) ||
         (y > 0 && !inside(x, y - 1)) || (y < SIDE - 1 && !inside(x, y + 1)));
      const pixel = edge ? [255, 255, 255] : colour(shares[y * SIDE + x] / limit);
      picture.data.set([...pixel, edge ? 255 : Math.round(255 * STRENGTH)], 4 * (y * SIDE + x));
    }
  }
  context.putImageData(picture, 0, 0);
}

export function clear(canvas) {
  canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
}

export function drawLegend(canvas) {
  canvas.width = 128;
  canvas.height = 1;
  const context = canvas.getContext("2d"), picture = context.createImageData(128, 1);
  for (let x = 0; x < 128; x += 1) picture.data.set([...colour(x / 127), 255], 4 * x);
  context.putImageData(picture, 0, 0);
}
