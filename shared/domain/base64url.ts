/**
 * Decodes base64url without padding, strictly: one value has one text. Node's own decoder also takes padding, the other alphabet, bits
 * beyond the last byte, and stops at what it does not know.
 * @returns null when the text is not what encoding its value gives
 */
export function decodeBase64url(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : null;
}
