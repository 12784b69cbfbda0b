/**
 * What the service worker of the sale page gets from the server. It names the campaign and nothing of the user. The
 * browser replaces `{time}` in `body`, because it knows the time zone.
 */
export type PushPayload = {
  title: string;
  body: string;
  /** RFC 3339; null = nothing to pay */
  pay_before: string | null;
  /** Path of the page. */
  url: string;
  lang: string;
  dir: 'ltr' | 'rtl';
  /** A later notification with the same tag replaces this one. */
  tag: string;
};
