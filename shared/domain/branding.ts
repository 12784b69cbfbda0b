/** How the sale page of a campaign looks and what it calls things, as operators send it. URLs of images are https. */
export type Branding = {
  /** Headline of the page and of previews; default: the name of the campaign. */
  title?: string;
  description?: string;
  shop_name?: string;
  shop_url?: string;
  /** Where a shopper who has paid finds the order. */
  order_url?: string;
  image_url?: string;
  /** What the picture shows, for those who do not see it. */
  image_alt?: string;
  logo_url?: string;
  /** In minor units of `currency`. Neither is given without the other. */
  price?: number;
  currency?: string;
  /** `#rrggbb`: the colour of buttons. The page adjusts it where it is text. */
  accent?: string;
  contact_url?: string;
  terms_url?: string;
  privacy_url?: string;
  /** Whether the page opens `checkout_url` by itself when a shopper gets a unit. */
  forward_to_checkout?: boolean;
  /** Texts of the page by language tag, instead of the built-in ones or in a language of its own. */
  texts?: Record<string, Record<string, string>>;
};

/** The origins of the pictures. */
export function imageOrigins({ image_url, logo_url }: Branding): string[] {
  return [...new Set([image_url, logo_url].flatMap((url) => (url ? [new URL(url).origin] : [])))];
}
