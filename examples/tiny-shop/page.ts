/** The one page of the shop. @param action HTML below the text */
export const page = (title: string, text: string, action = ''): string => `<!doctype html>
<html lang="en">
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>${escapeHtml(title)}</title>
  <style>
    body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 26rem; margin: 15vh auto; padding: 0 1rem; text-align: center }
    .button { display: block; width: 100%; padding: .8rem; border: 0; border-radius: .6rem; box-sizing: border-box;
      background: #1a1a1a; color: #fff; font: inherit; text-decoration: none; cursor: pointer }
  </style>
  <h1>${escapeHtml(title)}</h1>
  <p>${escapeHtml(text)}</p>
  ${action}
</html>`;

/** Loads the page again, until Doorbuster has reported the payment. */
export const AGAIN = '<script>setTimeout(() => location.reload(), 1500)</script>';

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
