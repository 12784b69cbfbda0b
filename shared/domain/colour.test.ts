import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { contrast, inkOn, readableOn } from './colour.js';

const colour = fc.integer({ min: 0, max: 0xffffff }).map((bits) => `#${bits.toString(16).padStart(6, '0')}`);

test('measures contrast as WCAG does', () => {
  expect(contrast('#ffffff', '#000000')).toBeCloseTo(21, 5);
  expect(contrast('#777777', '#ffffff')).toBeCloseTo(4.48, 2);
  expect(contrast('#123456', '#123456')).toBe(1);
});

test('text on any colour, and any colour as text, can be read', () => {
  fc.assert(
    fc.property(colour, fc.constantFrom('#ffffff', '#faf9f8', '#141110', '#1f1b1a'), (accent, ground) => {
      expect(contrast(inkOn(accent), accent)).toBeGreaterThanOrEqual(4.5);
      expect(contrast(readableOn(accent, ground), ground)).toBeGreaterThanOrEqual(4.5);
    }),
  );
});

test('keeps a colour that can be read as it is', () => {
  expect(readableOn('#b3261e', '#ffffff')).toBe('#b3261e');
});
