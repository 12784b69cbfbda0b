/** The result of one POST to a webhook endpoint. */
export type PostResult = {
  delivered: boolean;
  /** null = there was no response */
  status: number | null;
  error: string | null;
  durationMs: number;
};
