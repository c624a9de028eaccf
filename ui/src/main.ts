import { createPinia } from 'pinia';
import { createApp } from 'vue';
import './app/base.css';
import App from './app/App.vue';
import { router } from './app/routes';

createApp(App).use(createPinia()).use(router).mount('#app');
