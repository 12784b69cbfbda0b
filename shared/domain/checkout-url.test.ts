import { expect, it } from '@jest/globals';
import { checkoutUrlProblem } from './checkout-url.js';

const VALID = [
  'https://shop.example/pay',
  'https://shop.example/?o={order_id}',
  'http://localhost:3000/pay/{product_id}/{order_id}?r={reservation_id}&u={user_id}&n={qty}&t={expires_at}&s={signature}',
  'https://shop.example/{order_id}/{signature}',
  'https://shop.example/f%C3%BCr%20{order_id}?s={signature}&n=%22x%22',
  'https://shop.example/für/{order_id}',
];
for (const template of VALID) it(`accepts ${template}`, () => expect(checkoutUrlProblem(template)).toBeNull());

const WRONG: [template: string, problem: RegExp][] = [
  ['https://shop.example/pay?o={order}', /unknown placeholder \{order\}; known are \{order_id\}/],
  ['https://shop.example/pay?o={}', /unknown placeholder \{\}/],
  ['https://shop.example/pay?o={order_id', /brace/],
  ['https://shop.example/pay?o=order_id}', /brace/],
  ['javascript:alert("{order_id}")', /starting with https/],
  ['ftp://shop.example/', /starting with https/],
  ['shop.example/pay', /starting with https/],
  ['https://{user_id}/pay', /host without placeholders/],
  ['https://shop.{user_id}/pay', /host without placeholders/],
  ['https://ann:secret@shop.example/pay', /user or password/],
  ['https://shop.example', /a path/],
  ['https://shop.example?o={order_id}', /a path/],
  ['https://shop.example/pay#/{order_id}', /no fragment/],
  ['https://shop.example/pay?s={signature}', /must have \{reservation_id\} or \{order_id\}/],
  ['https://shop.example/{order_id}?s={signature}&t={signature}', /at most once/],
  ['https://shop.example/a\n{order_id}', /control characters/],
  ['https://shop.example/{order_id}?a=\t1&s={signature}', /control characters/],
  ['https://shop.example/für/{order_id}?s={signature}', /as a browser sends it.*\/f%C3%BCr\/x\?s=x/],
  ['https://shop.example/pay now/{order_id}?s={signature}', /as a browser sends it/],
  ['https://shop.example/pay/../{order_id}?s={signature}', /as a browser sends it/],
  ["https://shop.example/?o='{order_id}'&s={signature}", /as a browser sends it/],
  ['https://shop.example/pay\\now/{order_id}?s={signature}', /as a browser sends it/],
];
for (const [template, problem] of WRONG)
  it(`rejects ${template}`, () => expect(checkoutUrlProblem(template)).toMatch(problem));
