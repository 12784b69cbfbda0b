/**
 * Decodes base64url without padding, strictly: each value has exactly one text. Node's own decoder also accepts
 * padding, the alphabet of base64 and bits beyond the last byte, and stops at unknown characters without an error.
 * @returns null when the text is not the exact encoding of its value
 */
export function decodeBase64url(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : null;
}
