"""The pages that a server shows in a browser, and what they load; nothing comes from elsewhere."""
