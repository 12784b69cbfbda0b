/** How the sale page of a campaign looks and what it calls things, as operators send it. URLs of images are https. */
export type Branding = {
  /** Headline of the page and of previews; default: the name of the campaign. */
  title?: string;
  description?: string;
  shop_name?: string;
  shop_url?: string;
  image?: string;
  logo?: string;
  /** In minor units of an ISO 4217 currency. */
  price?: { amount: number; currency: string };
  /** `#rrggbb`. The page adjusts it where it could not be read. */
  accent?: string;
  terms_url?: string;
  privacy_url?: string;
  /** Whether the page opens `checkout_url` by itself when a shopper gets a unit. */
  forward_to_checkout?: boolean;
  /** Texts of the page by language tag, instead of the built-in ones or in a language of its own. */
  texts?: Record<string, Record<string, string>>;
};

/** The origins of the images, for the content security policy. */
export function imageOrigins({ image, logo }: Branding): string[] {
  return [...new Set([image, logo].flatMap((url) => (url ? [new URL(url).origin] : [])))];
}
