/**
 * Decodes base64url, and takes only the one text that each value has: no padding, no other characters, no bits left over
 * in the last one. So a signed text cannot be changed without its signature.
 * @returns null for any other text
 */
export function decodeBase64url(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : null;
}
