/** Colours of the sale page: contrast as in WCAG 2, by relative luminance. Colours are `#rrggbb`. */
export const COLOUR_PATTERN = /^#[0-9A-Fa-f]{6}$/;

/** Grounds of the panel of the sale page in light and dark, which sale.css has as `--panel`. */
export const CARD_GROUNDS = { light: '#ffffff', dark: '#1f1b1a' } as const;

/** The least contrast of text on its ground for WCAG 2 AA. */
const AA = 4.5;
const STEPS = 20;

type Rgb = readonly [number, number, number];

/** The contrast of two colours, from 1 to 21. */
export function contrast(one: string, other: string): number {
  const [light, dark] = [luminance(rgbOf(one)), luminance(rgbOf(other))].sort((a, b) => b - a) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

/** Black or white: the one that is easier to read on a colour. Its contrast is always above 4.5. */
export function inkOn(ground: string): string {
  return contrast(ground, '#ffffff') >= AA ? '#ffffff' : '#000000';
}

/** The colour, mixed with black or white until it can be read as text on the ground. */
export function readableOn(colour: string, ground: string): string {
  const towards = luminance(rgbOf(ground)) > 0.18 ? '#000000' : '#ffffff';
  for (let step = 0; step < STEPS; step += 1) {
    const mixed = mix(colour, towards, step / STEPS);
    if (contrast(mixed, ground) >= AA) return mixed;
  }
  return towards;
}

function mix(from: string, to: string, share: number): string {
  const [a, b] = [rgbOf(from), rgbOf(to)];
  const parts = a.map((value, i) => Math.round(value + ((b[i] ?? 0) - value) * share));
  return `#${parts.map((value) => value.toString(16).padStart(2, '0')).join('')}`;
}

function rgbOf(colour: string): Rgb {
  const bits = Number.parseInt(colour.slice(1), 16);
  return [bits >> 16, (bits >> 8) & 255, bits & 255];
}

function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
