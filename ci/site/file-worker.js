// Search in a page that was opened from a file: browsers start no worker there, so a frame stands in for it.
(() => {
  if (location.protocol !== "file:") return;
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      this.frame = frame;
      const inside = frame.contentWindow;
      inside.importScripts = (...urls) => Promise.all(urls.map((one) => this.load(one)));
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      this.ready = this.load(new URL(url, document.baseURI).href);
    }

    load(url) {
      const { document: page } = this.frame.contentWindow;
      return new Promise((loaded, failed) => {
        const script = page.createElement("script");
        Object.assign(script, { src: url, onload: loaded, onerror: failed });
        page.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
})();
